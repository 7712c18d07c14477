#include "linear.hpp"

#include <stdlib.h>
#include <string.h>

#include <memory>
#include <new>

#include "sweep.hpp"

namespace sk {

float* workspace(int which, int64_t floats) {
  struct Free { void operator()(float* p) const { free(p); } };
  static thread_local std::unique_ptr<float, Free> all[2];
  static thread_local int64_t sizes[2] = {0, 0};
  std::unique_ptr<float, Free>& kept = all[which];
  int64_t& size = sizes[which];
  if (floats > size) {
    const int64_t bytes = (floats * 4 + 4095) / 4096 * 4096;
    kept.reset((float*)aligned_alloc(4096, bytes));
    size = kept ? bytes / 4 : 0;
    if (!kept) throw std::bad_alloc();
  }
  return kept.get();
}

static void linear_by(const Isa& isa, const Linear& io, const Cut& cut, int threads, Product& product,
                      const Overlay& single, const Half* half = nullptr) {
  const int64_t item = io.bf16 ? 2 : 4;
  auto pack = [&](const Panel& p, int64_t from, int64_t to, float* packed) {
    if (half)
      return half->pack((const char*)io.x + p.start * io.columns * item, io.columns, from, to, p.live, p.nv,
                        packed);
    isa.pack(io.bf16, (const char*)io.x + p.start * io.columns * item, io.columns, from, to, p.live, p.nv,
             packed);
  };
  auto unpack = [&](const Panel& p, const float* out, int64_t from, int64_t to) {
    isa.unpack(io.bf16, out, from, to, p.live, p.nv, io.bias, (char*)io.y + p.start * io.rows * item,
               io.rows);
  };
  sweep(isa, cut, io.columns, io.rows, io.covered, io.bf16, threads, product, single, pack, unpack);
}

static void begin_with_bias(const Linear& io) {
  for (int64_t t = 0; t < io.tokens; t++)
    for (int64_t r = 0; r < io.rows; r++) {
      const float b = io.bias ? io.bias[r] : 0.f;
      if (io.bf16) {
        uint32_t u;
        memcpy(&u, &b, 4);
        ((uint16_t*)io.y)[t * io.rows + r] = (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
      } else {
        ((float*)io.y)[t * io.rows + r] = b;
      }
    }
}

void linear(const Isa& isa, const Linear& io, const Groups& groups, int64_t count, const Overlay& single) {
  const int64_t values = groups.valptr[count];
  if (io.tokens > FEW) {
    const Half* half = io.bf16 && !single.ptr ? half_of(isa) : nullptr;  // an overlay wants floats
    const Cut cut(isa, io.tokens, half);
    GatherProduct product(isa, groups, io.bf16, count, cut);
    product.half = half;
    return linear_by(isa, io, cut, product.threads, product, single, half);
  }
  if (!io.covered) begin_with_bias(io);
  const int threads = threads_of(values * io.tokens);
  const int64_t parts = std::min<int64_t>(count, 4 * threads);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < parts; i++)
    isa.gather_few(io.bf16, groups, count * i / parts, count * (i + 1) / parts, io.x, io.columns,
                   (int)io.tokens, io.bias, io.y, io.rows);
  if (single.ptr)
    isa.overlay_few(io.bf16, single, io.rows, io.x, io.columns, (int)io.tokens, io.y, io.rows);
}

static void few_chosen(const Isa& isa, const Linear& io, const Chosen& weight, int64_t rows) {
  if (!io.covered) begin_with_bias(io);
  const int threads = threads_of(rows * weight.kept * io.tokens);
  const int64_t parts = std::min<int64_t>((rows + 63) / 64, 4 * threads);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < parts; i++) {
    std::vector<float> scratch(io.tokens * weight.length + 16);
    const int64_t from = rows * i / parts, to = rows * (i + 1) / parts;
    isa.chosen_few(io.bf16, weight, from, to, io.x, io.columns, (int)io.tokens, io.bias, io.y, io.rows,
                   scratch.data());
  }
}

void linear(const Isa& isa, const Linear& io, const Chosen& weight, int64_t rows) {
  const bool shuffled = weight.n == 2 && weight.m == 4 && weight.bits == 2 && weight.kept % 4 == 0;
  const Half* half = io.bf16 && io.tokens > FEW ? half_of(isa) : nullptr;
  if (half && !half->takes(weight, rows)) half = nullptr;
  if (io.tokens <= FEW_CHOSEN && !half && shuffled && isa.lanes > 4) return few_chosen(isa, io, weight, rows);
  const Cut cut(isa, io.tokens, half);
  ChosenProduct product(isa, weight, half, io.bf16, rows, cut);
  linear_by(isa, io, cut, product.threads, product, Overlay{}, half);
}

}  // namespace sk
