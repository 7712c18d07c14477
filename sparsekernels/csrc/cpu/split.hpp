// Who computes which tokens (or output positions), decided without running anything, so that tests can ask.
//
// Where there are enough tokens every thread gets a run of its own and takes it from activations to results
// alone: what one core has packed and another one reads has to travel between their caches, which on
// processors whose cores are spread over several of them doubled the time of a product.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "isa.hpp"

namespace sk {

struct Panel {
  int64_t start;
  int live, nv;  // tokens in it; vectors that hold them
};

// Vectors of tokens are dealt in units: one, or two where panels have an even number.
struct Cut {
  int64_t tokens, lanes, most, unit;

  Cut(const Isa& isa, int64_t tokens, bool even)
      : tokens(tokens), lanes(isa.lanes), most(isa.most), unit(even ? 2 : 1) {}
  int64_t units() const { return (tokens + lanes * unit - 1) / (lanes * unit); }

  // Panels of the units from..to, as few as hold them and about equally wide: narrow ones are slow.
  std::vector<Panel> panels(int64_t from, int64_t to) const {
    std::vector<Panel> found;
    const int64_t wide = most / unit, count = (to - from + wide - 1) / wide, size = lanes * unit;
    for (int64_t i = 0, at = from; i < count; i++) {
      const int64_t next = from + (to - from) * (i + 1) / count;
      found.push_back({at * size, (int)(std::min(tokens, next * size) - at * size), (int)((next - at) * unit)});
      at = next;
    }
    return found;
  }
  std::vector<Panel> all() const { return panels(0, units()); }
  std::vector<Panel> share(int64_t thread, int64_t threads) const {
    return panels(units() * thread / threads, units() * (thread + 1) / threads);
  }
  // Enough for everybody: fewer than two vectors a thread leave the multipliers waiting for weights.
  bool enough(int64_t threads, int64_t vectors = 2) const {
    return threads == 1 || units() * unit >= vectors * threads;
  }
};

}  // namespace sk
