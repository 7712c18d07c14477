// The order of work that linear layers and convolutions share: some panels of tokens or positions at a
// time, so that they and their products stay in the caches; pack, multiply, put into place.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "isa.hpp"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace sk {

inline int threads_of(int64_t work) {
#ifdef _OPENMP
  return work < 1 << 16 ? 1 : omp_get_max_threads();  // a team costs some microseconds to wake
#else
  return work ? 1 : 1;
#endif
}

// Memory that is kept between calls: fresh pages would cost a tenth of a product.
float* workspace(int64_t floats);

struct Panel {
  int64_t start;
  int live, nv;  // tokens in it; vectors that hold them
};

inline std::vector<Panel> panels_of(const Isa& isa, int64_t total) {
  const int64_t width = isa.lanes * isa.most;
  std::vector<Panel> found;
  for (int64_t at = 0; at < total; at += width) {
    const int live = (int)std::min(width, total - at);
    found.push_back({at, live, (live + isa.lanes - 1) / isa.lanes});
  }
  return found;
}

// A product over packed panels: how many pieces of work it makes, and one of them.
struct Product {
  virtual ~Product() = default;
  virtual int64_t pieces(int count, int threads) = 0;
  virtual void run(int64_t piece, const Panel* panels, int count, const float* packed, int64_t stride,
                   float* outs, int64_t out_stride) const = 0;
};

constexpr int64_t AT_ONCE = 8;  // panels
constexpr int64_t FEW = 8;      // tokens up to which a linear layer is bound by reading its weights

template <class Pack, class Unpack>
void sweep(const Isa& isa, const std::vector<Panel>& panels, int64_t columns, int64_t rows, bool covered,
           int bf16, int64_t work, Product& product, const Overlay& single, const Pack& pack,
           const Unpack& unpack) {
  const int threads = threads_of(work);
  const int64_t width = isa.lanes * isa.most, stride = width * columns, out_stride = width * rows;
  const int64_t block = std::min<int64_t>(AT_ONCE, panels.size());
  float* packed = workspace(block * (stride + out_stride) + 16);
  float* outs = packed + block * stride;
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(8, columns / 64));
  const int64_t out_parts = std::max<int64_t>(1, std::min<int64_t>(8, rows / 64));
  // The same cut for every block of panels: results do not depend on it, only the balance does.
  const int64_t pieces = product.pieces((int)block, threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
  for (int64_t first = 0; first < (int64_t)panels.size(); first += block) {
    const Panel* here = panels.data() + first;
    const int count = (int)std::min<int64_t>(block, panels.size() - first);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < count * parts; i++) {
      const int64_t p = i / parts, part = i % parts, cut = (columns + parts - 1) / parts;
      const int64_t from = part * cut / 16 * 16, to = part + 1 == parts ? columns : (part + 1) * cut / 16 * 16;
      pack(here[p], from, to, packed + p * stride);
      if (!covered && part == 0) std::fill_n(outs + p * out_stride, rows * here[p].nv * isa.lanes, 0.f);
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < pieces; i++)
      product.run(i, here, count, packed, stride, outs, out_stride);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < count * out_parts; i++) {
      const int64_t p = i / out_parts, part = i % out_parts, cut = (rows + out_parts - 1) / out_parts;
      const int64_t from = part * cut / 16 * 16;
      const int64_t to = part + 1 == out_parts ? rows : (part + 1) * cut / 16 * 16;
      if (single.ptr)
        isa.overlay(bf16, single, from, to, packed + p * stride, here[p].nv, outs + p * out_stride);
      unpack(here[p], outs + p * out_stride, from, to);
    }
  }
}

// Groups of rows; a piece is a run of groups with about the same work, on one panel.
struct GatherProduct : Product {
  const Isa& isa;
  const Groups& groups;
  int bf16;
  int64_t count_groups, panels = 1;
  std::vector<int64_t> cuts;

  GatherProduct(const Isa& isa, const Groups& groups, int bf16, int64_t count)
      : isa(isa), groups(groups), bf16(bf16), count_groups(count) {}
  int64_t pieces(int count, int threads) override {
    panels = count;
    const int64_t wanted = std::max<int64_t>(1, (6 * threads + count - 1) / count);
    cut(threads == 1 ? 1 : std::min(wanted, count_groups));
    return ((int64_t)cuts.size() - 1) * count;
  }
  void cut(int64_t wanted) {  // at equal shares of the values
    const int64_t total = groups.valptr[count_groups];
    cuts.assign(1, 0);
    for (int64_t c = 1; c < wanted; c++) {
      const int64_t* at =
          std::lower_bound(groups.valptr, groups.valptr + count_groups, total / wanted * c);
      if (at - groups.valptr > cuts.back()) cuts.push_back(at - groups.valptr);
    }
    if (cuts.back() < count_groups || cuts.size() == 1) cuts.push_back(count_groups);
  }
  void run(int64_t piece, const Panel* here, int count, const float* packed, int64_t stride, float* outs,
           int64_t out_stride) const override {
    const int64_t part = piece / panels, p = piece % panels;
    if (p < count)
      isa.gather(bf16, groups, cuts[part], cuts[part + 1], packed + p * stride, here[p].nv,
                 outs + p * out_stride);
  }
};

// Rows with columns of their own; a piece is some rows on every panel, their places decoded once.
struct ChosenProduct : Product {
  const Isa& isa;
  const Chosen& weight;
  int bf16;
  int64_t rows, chunk = 64;

  ChosenProduct(const Isa& isa, const Chosen& weight, int bf16, int64_t rows)
      : isa(isa), weight(weight), bf16(bf16), rows(rows) {}
  int64_t pieces(int, int threads) override {
    while (chunk > 8 && rows < 2 * chunk * threads) chunk /= 2;
    return (rows + chunk - 1) / chunk;
  }
  void run(int64_t piece, const Panel* here, int count, const float* packed, int64_t stride, float* outs,
           int64_t out_stride) const override {
    static thread_local std::vector<char> scratch;  // some 100 KB
    const int64_t from = piece * chunk, to = std::min(rows, from + chunk);
    scratch.resize(std::max<size_t>(scratch.size(), isa.chosen_scratch(weight, to - from)));
    int nvs[AT_ONCE];
    for (int p = 0; p < count; p++) nvs[p] = here[p].nv;
    isa.chosen(bf16, weight, from, to, packed, stride, nvs, count, outs, out_stride, scratch.data());
  }
};

}  // namespace sk
