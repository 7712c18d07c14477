// Where accumulators go: y[row][token] = alpha * sum + beta * c + bias, in 16 bits, or for a product split
// along its columns a part of the sum in 32 bits, which `Reduce` adds up.
#pragma once
#include "arguments.hpp"
#include "device.cuh"

namespace sk {

template <bool BF>
SK_DEVICE uint32_t finished(const Result& r, int64_t row, int64_t token, float first, float second) {
  first *= r.alpha, second *= r.alpha;
  if (r.c) {
    const uint32_t c = *(const uint32_t*)(r.c + row * r.ld + token);
    first += r.beta * widen<BF>((uint16_t)c), second += r.beta * widen<BF>((uint16_t)(c >> 16));
  }
  if (r.bias) first += r.bias[row], second += r.bias[row];
  return narrow<BF>(first) | (uint32_t)narrow<BF>(second) << 16;
}

// Two tokens side by side of one row.
template <bool BF>
SK_DEVICE void put(const Result& r, int64_t row, int64_t token, float first, float second) {
  if (row < 0 || token >= r.ld) return;
  if (r.part) {
    float* to = r.part + ((int64_t)block_index().z * r.rows + row) * r.ld + token;
    to[0] = first, to[1] = second;
  } else {
    *(uint32_t*)(r.y + row * r.ld + token) = finished<BF>(r, row, token, first, second);
  }
}

struct ReduceArgs {
  Result result;
  int64_t splits;
};

template <bool BF>
struct Reduce {
  using Args = ReduceArgs;
  static constexpr int THREADS = 128, SHARED = 0;
  SK_DEVICE static void run(const ReduceArgs& a) {
    const Result& r = a.result;
    const int64_t pair = (int64_t)block_index().x * THREADS + thread_index();
    if (pair * 2 >= r.rows * r.ld) return;
    const int64_t row = pair * 2 / r.ld, token = pair * 2 % r.ld;
    float first = 0.f, second = 0.f;
    for (int64_t z = 0; z < a.splits; z++) {
      const float* from = r.part + (z * r.rows + row) * r.ld + token;
      first += from[0], second += from[1];
    }
    *(uint32_t*)(r.y + row * r.ld + token) = finished<BF>(r, row, token, first, second);
  }
};

}  // namespace sk
