// The order of work that linear layers and convolutions share: pack a panel of tokens or positions, multiply,
// put into place. Every thread does that with panels of its own; where there are too few of them for that,
// some panels at a time are made and used by all.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "isa.hpp"
#include "split.hpp"
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

// Memory that is kept between calls: fresh pages would cost a tenth of a product. Two pieces for each
// calling thread.
float* workspace(int which, int64_t floats);

// A product over packed panels, in stages one after the other; each has pieces of preparation, which threads
// share, and then pieces of work.
struct Product {
  bool own = false;  // every thread has panels of its own, so that pieces are one thread's
  virtual ~Product() = default;
  virtual int64_t block() const = 0;  // panels at a time
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

inline int64_t thread_of() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}
inline int64_t team_of() {
#ifdef _OPENMP
  return omp_get_num_threads();
#else
  return 1;
#endif
}

// One thread's own work, or everybody's: then threads wait for each other at the end.
template <class Work>
void each(bool own, int64_t count, const Work& work) {
  if (own) {
    for (int64_t i = 0; i < count; i++) work(i);
    return;
  }
#pragma omp for schedule(dynamic)
  for (int64_t i = 0; i < count; i++) work(i);
}

inline int64_t parts_of(bool own, int64_t rows) {
  return own ? 1 : std::max<int64_t>(1, std::min<int64_t>(8, rows / 64));
}
inline int64_t edge_of(int64_t part, int64_t parts, int64_t rows) {
  return part == parts ? rows : part * ((rows + parts - 1) / parts) / 16 * 16;
}

template <class Pack, class Unpack>
void sweep(const Isa& isa, const Cut& cut, int64_t columns, int64_t rows, bool covered, int bf16, int threads,
           Product& product, const Overlay& single, const Pack& pack, const Unpack& unpack) {
  const bool own = product.own;
  const int64_t width = isa.lanes * isa.most, stride = width * columns, out_stride = width * rows;
  const int64_t block = product.block(), room = (block * (stride + out_stride) + 1023) / 1024 * 1024;
  float* const space = workspace(0, room * (own ? threads : 1));
  const int64_t parts = parts_of(own, columns), out_parts = parts_of(own, rows);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const int64_t team = team_of(), last = team - 1;
    const std::vector<Panel> panels = own ? cut.share(thread_of(), team) : cut.all();
    // the last share is a largest one: all threads come to every barrier
    const int64_t most = own ? (int64_t)cut.share(last, team).size() : (int64_t)panels.size();
    float* const packed = space + (own ? thread_of() * room : 0);
    float* const outs = packed + block * stride;
    for (int64_t first = 0; first < most; first += block) {
      const int64_t begin = std::min<int64_t>(first, panels.size());
      const Panel* here = panels.data() + begin;
      const int count = (int)std::min<int64_t>(block, panels.size() - begin);
      each(own, count * parts, [&](int64_t i) {
        const int64_t p = i / parts, part = i % parts;
        pack(here[p], edge_of(part, parts, columns), edge_of(part + 1, parts, columns), packed + p * stride);
        if (!covered && part == 0) std::fill_n(outs + p * out_stride, rows * here[p].nv * isa.lanes, 0.f);
      });
      for (int64_t stage = 0; stage < product.stages(); stage++) {
        const int64_t to_prepare = product.preparations(stage);
        if (to_prepare && (first == 0 || product.stages() > 1)) {  // a single stage stays prepared
          if (own && first + stage > 0) {
#pragma omp barrier  // others may still use the stage before
          }
          each(false, to_prepare, [&](int64_t i) { product.prepare(stage, i); });
        }
        each(own, product.pieces(stage, count), [&](int64_t i) {
          product.run(stage, i, here, count, packed, stride, outs, out_stride);
        });
      }
      each(own, count * out_parts, [&](int64_t i) {
        const int64_t p = i / out_parts, part = i % out_parts;
        const int64_t from = edge_of(part, out_parts, rows), to = edge_of(part + 1, out_parts, rows);
        if (single.ptr)
          isa.overlay(bf16, single, from, to, packed + p * stride, here[p].nv, outs + p * out_stride);
        unpack(here[p], outs + p * out_stride, from, to);
      });
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

  GatherProduct(const Isa& isa, const Groups& groups, int bf16, int64_t count, const Cut& cut)
      : isa(isa), groups(groups), bf16(bf16), threads(threads_of(groups.valptr[count] * cut.tokens)),
        count_groups(count) {
    own = cut.enough(threads);
  }
  int64_t block() const override { return own ? 1 : AT_ONCE; }
  int64_t parts(int count) const {
    return own || !count ? 1 : std::min<int64_t>(count_groups, (6 * threads + count - 1) / count);
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
  static constexpr int64_t CHUNK = 64, PAIRED = 256, STREAM = 4 << 20, AT_ONCE_UP_TO = 2;
  const Isa& isa;
  const Chosen& weight;
  const Half* half;  // or null
  int bf16, threads;
  bool at_once;
  int64_t rows, per_stage, chunk;  // rows of the weight, of a stage, of a chunk
  float* stream = nullptr;

  ChosenProduct(const Isa& isa, const Chosen& weight, const Half* half, int bf16, int64_t rows, const Cut& cut)
      : isa(isa), weight(weight), half(half), bf16(bf16), threads(threads_of(rows * weight.kept * cut.tokens)),
        at_once(cut.tokens <= AT_ONCE_UP_TO * isa.lanes * isa.most), rows(rows), per_stage(rows),
        chunk(half ? PAIRED : CHUNK) {
    own = cut.enough(threads, 2 * isa.most);
    if (at_once) {
      while (chunk > 8 && rows < 4 * chunk * threads) chunk /= 2;
      stream = workspace(1, threads * (size() + 16));
      return;
    }
    per_stage = std::max<int64_t>(1, STREAM / std::max<int64_t>(1, size())) * chunk;
    stream = workspace(1, std::min((rows + chunk - 1) / chunk * chunk, per_stage) / chunk * size() + 16);
  }
  int64_t block() const override { return own && !at_once && stages() == 1 ? 1 : AT_ONCE; }
  int64_t stages() const override { return (rows + per_stage - 1) / std::max<int64_t>(1, per_stage); }
  int64_t chunks(int64_t stage) const {
    return (std::min(rows - stage * per_stage, per_stage) + chunk - 1) / chunk;
  }
  int64_t preparations(int64_t stage) const override { return at_once ? 0 : chunks(stage); }
  void prepare(int64_t stage, int64_t i) const override { decode(stage, i, stream + i * size()); }
  int64_t size() const {  // of a chunk's stream, in floats
    return half ? chunk * half->stream(weight) : chunk * weight.kept * 2;
  }
  int64_t parts(int64_t stage, int count) const {
    return own || !count ? 1 : std::min<int64_t>(chunks(stage), (6 * threads + count - 1) / count);
  }
  int64_t pieces(int64_t stage, int count) const override {
    return at_once ? chunks(stage) : parts(stage, count) * count;
  }
  int64_t begin(int64_t stage, int64_t i) const { return stage * per_stage + i * chunk; }
  void decode(int64_t stage, int64_t i, float* to) const {
    const int64_t from = begin(stage, i), end = std::min(rows, from + chunk);
    half ? half->chosen_decode(weight, from, end, to) : isa.chosen_decode(bf16, weight, from, end, to);
  }
  void multiply(int64_t stage, int64_t i, const float* from, const float* panel, int nv, float* out) const {
    const int64_t first = begin(stage, i), end = std::min(rows, first + chunk);
    half ? half->chosen(weight, first, end, from, panel, nv, out) : isa.chosen(weight, first, end, from, panel, nv, out);
  }
  void run(int64_t stage, int64_t piece, const Panel* here, int count, const float* packed, int64_t stride,
           float* outs, int64_t out_stride) const override {
    if (at_once) {
      float* decoded = stream + thread_of() * (size() + 16);
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
