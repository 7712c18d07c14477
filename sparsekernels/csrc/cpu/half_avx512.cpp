// bfloat16 on processors that multiply pairs of it: twice the rate of float32, for the gathered family and 2:4.
//
// A panel holds 16-bit tokens, in blocks of 32 whose quarters of four are dealt so that interleaving two
// columns within 128-bit lanes, one instruction, gives the tokens in order.
#include <stdint.h>
#include <string.h>

#include <algorithm>

#include "isa.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,prefer-vector-width=512")

namespace sk {

#define SK_W 16
namespace half512 {
#include "simd.hpp"

constexpr int64_t COLUMNS = 128, ROWS = 256;  // of a block of weights

static void pack(const void* source, int64_t ld, int64_t from, int64_t to, int tokens, int nv, void* target) {
  const uint16_t* x = (const uint16_t*)source;
  uint16_t* panel = (uint16_t*)target;
  for (int block = 0; block < nv; block++) {  // 16 tokens: the even or the odd quarters of 32
    const int first = block * 16, live = tokens - first < 16 ? tokens - first : 16;
    uint16_t* base = panel + block / 2 * 32 + block % 2 * 4;
    for (int64_t c = from; c < to; c += 16) {
      const int64_t count = to - c < 16 ? to - c : 16;
      vf r[16];
      for (int t = 0; t < 16; t++) {
        uint16_t few[16] = {};
        const uint16_t* row = x + (first + t) * ld + c;
        if (t < live && count < 16) memcpy(few, row, count * 2), row = few;
        r[t] = t < live ? load(row) : (vf){};
      }
      transpose(r);
      for (int i = 0; i < count; i++) {
        uint16_t run[16];
        store(run, r[i]);  // exact: these are bfloat16 already
        for (int q = 0; q < 4; q++) memcpy(base + (c + i) * (nv * 16) + q * 8, run + q * 4, 8);
      }
    }
  }
}

// BLOCKS of 32 tokens by MR rows; w: pairs of columns, `ld` apart, low half the first.
template <int BLOCKS, int MR>
SK_INLINE void tile(const uint16_t* panel, const uint32_t* w, const int32_t* col, int64_t count, bool add,
                    float* const* out) {
  __m512 acc[MR][BLOCKS * 2];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int v = 0; v < BLOCKS * 2; v++) acc[i][v] = add ? _mm512_loadu_ps(out[i] + v * 16) : _mm512_setzero_ps();
  for (int64_t q = 0; q < count; q += 2, w += ROWS) {
    const uint16_t* one = panel + (int64_t)col[q] * (BLOCKS * 32);
    const uint16_t* two = panel + (int64_t)col[q + 1 < count ? q + 1 : q] * (BLOCKS * 32);
    __m512i x[BLOCKS * 2];
#pragma GCC unroll 4
    for (int b = 0; b < BLOCKS; b++) {
      const __m512i first = _mm512_loadu_si512(one + b * 32), second = _mm512_loadu_si512(two + b * 32);
      x[2 * b] = _mm512_unpacklo_epi16(first, second);
      x[2 * b + 1] = _mm512_unpackhi_epi16(first, second);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const __m512i pair = _mm512_set1_epi32((int)w[i]);
#pragma GCC unroll 4
      for (int v = 0; v < BLOCKS * 2; v++) acc[i][v] = _mm512_dpbf16_ps(acc[i][v], (__m512bh)x[v], (__m512bh)pair);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int v = 0; v < BLOCKS * 2; v++) _mm512_storeu_ps(out[i] + v * 16, acc[i][v]);
}

// Two columns of weights beside each other; an odd last one beside zeros.
SK_INLINE void pairs(const uint16_t* w, int64_t rows, int64_t from, int64_t to, int64_t count, uint32_t* pair) {
  for (int64_t q = 0; q < count; q += 2, pair += ROWS)
    for (int64_t r = from; r < to; r += 8) {
      const v8i low = __builtin_convertvector(*(const v8h_any*)(w + q * rows + r), v8i);
      const v8i high = q + 1 < count ? __builtin_convertvector(*(const v8h_any*)(w + (q + 1) * rows + r), v8i) : (v8i){};
      *(v8i*)(pair + r - from) = low | high << 16;
    }
}

template <int BLOCKS, int MR>
static void groups_of(const Groups& g, int64_t from, int64_t to, const uint16_t* panel, float* out) {
  alignas(64) float waste[BLOCKS * 32];
  alignas(64) uint32_t pair[COLUMNS / 2 * ROWS];
  for (int64_t i = from; i < to; i++) {
    const int64_t rows = g.rowptr[i + 1] - g.rowptr[i], cols = g.colptr[i + 1] - g.colptr[i];
    const uint16_t* w = (const uint16_t*)g.values + g.valptr[i];
    const int32_t *col = g.cols + g.colptr[i], *row = g.rows + g.rowptr[i];
    for (int64_t r0 = 0; r0 < rows; r0 += ROWS) {
      const int64_t r1 = r0 + ROWS < rows ? r0 + ROWS : rows;
      for (int64_t q = 0; q == 0 || q < cols; q += COLUMNS) {  // at least once: no column gives zeros
        const int64_t count = cols - q < COLUMNS ? cols - q : COLUMNS;
        pairs(w + q * rows, rows, r0, r1, count, pair);
        for (int64_t r = r0; r < r1; r += MR) {
          float* place[MR];
          for (int k = 0; k < MR; k++)
            place[k] = row[r + k] < 0 ? waste : out + (int64_t)row[r + k] * (BLOCKS * 32);
          tile<BLOCKS, MR>(panel, pair + r - r0, col + q, count, q > 0, place);
        }
      }
    }
  }
}
static void gather(const Groups& g, int64_t from, int64_t to, const void* panel, int nv, float* out) {
  if (nv == 2) groups_of<1, 8>(g, from, to, (const uint16_t*)panel, out);
  if (nv == 4) groups_of<2, 4>(g, from, to, (const uint16_t*)panel, out);
}


#include "half_chosen.hpp"
}  // namespace half512

static const Half half512_kernels = {half512::pack, half512::gather, half512::takes, half512::stream_of,
                                     half512::chosen_decode, half512::chosen};

const Half* half_of(const Isa& isa) {
  static const bool supported = __builtin_cpu_supports("avx512bf16");
  return supported && &isa == &isa_avx512 ? &half512_kernels : nullptr;
}

}  // namespace sk
#else
namespace sk {
const Half* half_of(const Isa&) { return nullptr; }
}  // namespace sk
#endif
