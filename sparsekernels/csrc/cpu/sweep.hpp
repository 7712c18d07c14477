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

// Memory that is kept between calls: fresh pages would cost a tenth of a product. Three pieces for each
// thread.
float* workspace(int which, int64_t floats);

struct Panel {
  int64_t start;
  int live, nv;  // tokens in it; vectors that hold them
};

inline std::vector<Panel> panels_of(const Isa& isa, int64_t total, bool even = false) {
  const int64_t width = isa.lanes * isa.most;
  std::vector<Panel> found;
  for (int64_t at = 0; at < total; at += width) {
    const int live = (int)std::min(width, total - at);
    const int nv = (live + isa.lanes - 1) / isa.lanes;
    found.push_back({at, live, even ? nv + nv % 2 : nv});
  }
  return found;
}

// A product over packed panels, in stages one after the other; each has pieces of preparation and then
// pieces of work that threads share.
struct Product {
  virtual ~Product() = default;
  virtual int64_t stages() const { return 1; }
  virtual int64_t preparations(int64_t) const { return 0; }
  virtual void prepare(int64_t, int64_t) const {}
  virtual int64_t pieces(int64_t stage, int count) const = 0;
  virtual void run(int64_t stage, int64_t piece, const Panel* panels, int count, const float* packed,
                   int64_t stride, float* outs, int64_t out_stride) const = 0;
};

constexpr int64_t AT_ONCE = 8;  // panels
constexpr int64_t FEW_CHOSEN = 16;
constexpr int64_t FEW = 8;      // tokens up to which a linear layer is bound by reading its weights

template <class Pack, class Unpack>
void sweep(const Isa& isa, const std::vector<Panel>& panels, int64_t columns, int64_t rows, bool covered,
           int bf16, int64_t work, Product& product, const Overlay& single, const Pack& pack,
           const Unpack& unpack) {
  const int threads = threads_of(work);
  const int64_t width = isa.lanes * isa.most, stride = width * columns, out_stride = width * rows;
  const int64_t block = std::min<int64_t>(AT_ONCE, panels.size());
  float* packed = workspace(0, block * (stride + out_stride) + 16);
  float* outs = packed + block * stride;
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(8, columns / 64));
  const int64_t out_parts = std::max<int64_t>(1, std::min<int64_t>(8, rows / 64));
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
    for (int64_t stage = 0; stage < product.stages(); stage++) {
      if (first == 0 || product.stages() > 1) {  // a single stage stays prepared
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < product.preparations(stage); i++) product.prepare(stage, i);
      }
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < product.pieces(stage, count); i++)
        product.run(stage, i, here, count, packed, stride, outs, out_stride);
    }
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
  int bf16, threads;
  int64_t count_groups;
  const Half* half = nullptr;

  GatherProduct(const Isa& isa, const Groups& groups, int bf16, int64_t count, int64_t tokens)
      : isa(isa), groups(groups), bf16(bf16), threads(threads_of(groups.valptr[count] * tokens)),
        count_groups(count) {}
  int64_t parts(int count) const {
    return threads == 1 ? 1 : std::min<int64_t>(count_groups, (6 * threads + count - 1) / count);
  }
  int64_t pieces(int64_t, int count) const override { return parts(count) * count; }
  int64_t edge(int64_t part, int64_t of) const {  // at equal shares of the values
    if (part == 0 || part == of) return part ? count_groups : 0;
    const int64_t goal = groups.valptr[count_groups] / of * part;
    return std::lower_bound(groups.valptr, groups.valptr + count_groups, goal) - groups.valptr;
  }
  void run(int64_t, int64_t piece, const Panel* here, int count, const float* packed, int64_t stride,
           float* outs, int64_t out_stride) const override {
    const int64_t part = piece / count, p = piece % count, of = parts(count);
    const float* panel = packed + p * stride;
    float* out = outs + p * out_stride;
    if (half) half->gather(groups, edge(part, of), edge(part + 1, of), panel, here[p].nv, out);
    else isa.gather(bf16, groups, edge(part, of), edge(part + 1, of), panel, here[p].nv, out);
  }
};

// Rows with columns of their own. For few panels a piece decodes a chunk of rows and uses it at once; for
// more a stage decodes as many rows as fit into some megabytes, and a piece is some chunks on one panel.
struct ChosenProduct : Product {
  static constexpr int64_t CHUNK = 64, STREAM = 4 << 20, AT_ONCE_UP_TO = 2;
  const Isa& isa;
  const Chosen& weight;
  int bf16, threads;
  bool at_once;
  int64_t rows, per_stage, chunk = CHUNK;  // rows of the weight, of a stage, of a chunk
  float* stream = nullptr;

  ChosenProduct(const Isa& isa, const Chosen& weight, int bf16, int64_t rows, int64_t tokens)
      : isa(isa), weight(weight), bf16(bf16), threads(threads_of(rows * weight.kept * tokens)),
        at_once(tokens <= AT_ONCE_UP_TO * isa.lanes * isa.most), rows(rows), per_stage(rows) {
    if (at_once) {
      while (chunk > 8 && rows < 4 * chunk * threads) chunk /= 2;
      return;
    }
    per_stage = std::max<int64_t>(1, STREAM / (2 * chunk * std::max<int64_t>(1, weight.kept))) * chunk;
    stream = workspace(1, std::min(rows, per_stage) * weight.kept * 2 + 16);
  }
  int64_t stages() const override { return (rows + per_stage - 1) / std::max<int64_t>(1, per_stage); }
  int64_t chunks(int64_t stage) const {
    return (std::min(rows - stage * per_stage, per_stage) + chunk - 1) / chunk;
  }
  int64_t preparations(int64_t stage) const override { return at_once ? 0 : chunks(stage); }
  void prepare(int64_t stage, int64_t i) const override { decode(stage, i, stream + i * size()); }
  int64_t size() const { return chunk * weight.kept * 2; }
  int64_t parts(int64_t stage, int count) const {
    return threads == 1 ? 1 : std::min<int64_t>(chunks(stage), (6 * threads + count - 1) / count);
  }
  int64_t pieces(int64_t stage, int count) const override {
    return at_once ? chunks(stage) : parts(stage, count) * count;
  }
  int64_t begin(int64_t stage, int64_t i) const { return stage * per_stage + i * chunk; }
  void decode(int64_t stage, int64_t i, float* to) const {
    isa.chosen_decode(bf16, weight, begin(stage, i), std::min(rows, begin(stage, i) + chunk), to);
  }
  void multiply(int64_t stage, int64_t i, const float* from, const float* panel, int nv, float* out) const {
    isa.chosen(weight, begin(stage, i), std::min(rows, begin(stage, i) + chunk), from, panel, nv, out);
  }
  void run(int64_t stage, int64_t piece, const Panel* here, int count, const float* packed, int64_t stride,
           float* outs, int64_t out_stride) const override {
    if (at_once) {
      float* decoded = workspace(2, size() + 16);
      decode(stage, piece, decoded);
      for (int p = 0; p < count; p++)
        multiply(stage, piece, decoded, packed + p * stride, here[p].nv, outs + p * out_stride);
      return;
    }
    const int64_t all = chunks(stage), of = parts(stage, count), part = piece % of, p = piece / of;
    for (int64_t i = all * part / of; i < all * (part + 1) / of; i++)
      multiply(stage, i, stream + i * size(), packed + p * stride, here[p].nv, outs + p * out_stride);
  }
};

}  // namespace sk
