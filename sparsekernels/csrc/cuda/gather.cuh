// Gather + mma: groups of up to V rows that share kept columns (vector-wise, Shfl-BW, block, tile-wise).
//
// A block of threads multiplies one group by TOKENS tokens. Activations come as xt[column][token], so that a
// kept column is a contiguous run; weights as they are packed, column first. Both are the transpose of what
// mma wants, which ldmatrix.trans turns round. Rows are written to where they belong: their order is free.
#pragma once
#include "result.cuh"
#include "source.cuh"

namespace sk {

template <bool BF, int V, int TOKENS, bool WINDOWS>
struct Gather {
  using Args = GatherArgs;
  using From = Source<WINDOWS>;
  static constexpr bool FROM_WINDOWS = WINDOWS;
  static constexpr int K = 32, STAGES = 4, WARPS = TOKENS / 32, THREADS = WARPS * 32;
  static constexpr int HIGH = V >= 64 ? 2 : 1, WIDE = WARPS / HIGH;         // warps
  static constexpr int ROWS = V / HIGH, COLS = TOKENS / WIDE;               // of a warp
  static constexpr int A = K * V, B = K * TOKENS, SHARED = STAGES * (A + B) * 2;
  static constexpr int A_CHUNKS = V / 8, B_CHUNKS = TOKENS / 8, IDS = K * B_CHUNKS / THREADS;
  static_assert(ROWS % 16 == 0 && COLS % 16 == 0 && K * B_CHUNKS % THREADS == 0, "tiles of whole fragments");
  static_assert(THREADS % B_CHUNKS == 0, "a thread copies the same eight tokens of every column");

  // The group of this block and its part of the columns.
  struct Group {
    const uint16_t* values;
    const int32_t *cols, *rows;
    int64_t from, to;  // columns
    int height;
  };
  SK_DEVICE static Group group_of(const GatherArgs& p) {
    const int64_t g = block_index().y, z = block_index().z, splits = grid_size().z;
    const int64_t columns = p.colptr[g + 1] - p.colptr[g], steps = (columns + K - 1) / K;
    Group found;
    found.values = p.values + p.valptr[g];
    found.cols = p.cols + p.colptr[g];
    found.rows = p.rows + p.rowptr[g];
    found.height = (int)(p.rowptr[g + 1] - p.rowptr[g]);
    found.from = steps * z / splits * K;
    found.to = steps * (z + 1) / splits * K;
    if (found.to > columns) found.to = columns;
    return found;
  }

  // Column ids are fetched a step ahead of the copies that need them.
  SK_DEVICE static void fetch(const Group& g, int64_t k0, int32_t (&id)[IDS]) {
#pragma unroll
    for (int i = 0; i < IDS; i++) {
      const int64_t k = k0 + (thread_index() + i * THREADS) / B_CHUNKS;
      id[i] = k < g.to ? g.cols[k] : -1;
    }
  }
  SK_DEVICE static void load(const GatherArgs& p, const Group& g, const From& from, int64_t k0,
                             const int32_t (&id)[IDS], uint16_t* a, uint16_t* b) {
    for (int c = thread_index(); c < K * A_CHUNKS; c += THREADS) {
      const int k = c / A_CHUNKS, q = c % A_CHUNKS;
      const bool valid = k0 + k < g.to && q * 8 < g.height;
      copy16(a + swizzled<A_CHUNKS>(k, q), valid ? g.values + (k0 + k) * g.height + q * 8 : g.values, valid);
    }
#pragma unroll
    for (int i = 0; i < IDS; i++) {
      const int c = thread_index() + i * THREADS, k = c / B_CHUNKS, q = c % B_CHUNKS;
      const uint16_t* const address = from.at(p, id[i]);
      copy16(b + swizzled<B_CHUNKS>(k, q), address ? address : p.xt, address != nullptr);
    }
    copy_commit();
  }

  SK_DEVICE static void multiply(const uint16_t* a_tile, const uint16_t* b_tile, int row, int col,
                                 float (&sum)[ROWS / 16][COLS / 8][4]) {
    const int lane = thread_index() % 32;
#pragma unroll
    for (int k = 0; k < K; k += 16) {
      uint32_t a[ROWS / 16][4], b[COLS / 16][4];
#pragma unroll
      for (int i = 0; i < ROWS / 16; i++)
        ldmatrix_trans(a[i], a_tile + swizzled<A_CHUNKS>(k + (lane >> 4) * 8 + (lane & 7),
                                                         (row + i * 16) / 8 + (lane >> 3 & 1)));
#pragma unroll
      for (int j = 0; j < COLS / 16; j++)
        ldmatrix_trans(b[j], b_tile + swizzled<B_CHUNKS>(k + (lane & 15), (col + j * 16) / 8 + (lane >> 4)));
#pragma unroll
      for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
        for (int j = 0; j < COLS / 8; j++) mma<BF>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }

  SK_DEVICE static void add_overlay(const GatherArgs& p, int64_t row, int64_t token, float& first, float& second) {
    const From from(p, token);
    for (int64_t i = p.overlay_ptr[row]; i < p.overlay_ptr[row + 1]; i++) {
      const uint16_t* const address = from.at(p, p.overlay_cols[i]);
      const uint32_t x = address ? *(const uint32_t*)address : 0;
      const float w = widen<BF>(p.overlay[i]);
      first += w * widen<BF>((uint16_t)x), second += w * widen<BF>((uint16_t)(x >> 16));
    }
  }

  SK_DEVICE static void run(const GatherArgs& p) {
    SK_SHARED(memory);
    uint16_t *a = (uint16_t*)memory, *b = a + STAGES * A;
    const Group g = group_of(p);
    const From from(p, (int64_t)block_index().x * TOKENS + thread_index() % B_CHUNKS * 8);
    const int warp = thread_index() / 32, row = warp % HIGH * ROWS, col = warp / HIGH * COLS;
    const int steps = g.to > g.from ? (int)((g.to - g.from + K - 1) / K) : 0;
    float sum[ROWS / 16][COLS / 8][4] = {};
    int32_t id[IDS];
    fetch(g, g.from, id);
    for (int s = 0; s < STAGES - 1; s++) {
      if (s < steps) load(p, g, from, g.from + s * K, id, a + s * A, b + s * B);
      else copy_commit();
      fetch(g, g.from + (s + 1) * K, id);
    }
    for (int s = 0; s < steps; s++) {
      copy_wait<STAGES - 2>();
      sync_threads();
      const int next = s + STAGES - 1;
      if (next < steps) load(p, g, from, g.from + next * K, id, a + next % STAGES * A, b + next % STAGES * B);
      else copy_commit();
      fetch(g, g.from + (next + 1) * K, id);
      multiply(a + s % STAGES * A, b + s % STAGES * B, row, col, sum);
    }
    copy_wait<0>();

    const int lane = thread_index() % 32;
    const int64_t token = (int64_t)block_index().x * TOKENS + col + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int place = row + i * 16 + lane / 4 + h * 8;
        const int64_t to = place < g.height ? g.rows[place] : -1;  // the row order's whole cost
#pragma unroll
        for (int j = 0; j < COLS / 8; j++) {
          float first = sum[i][j][h * 2], second = sum[i][j][h * 2 + 1];
          if (p.overlay_ptr && to >= 0 && token + j * 8 < p.result.ld && block_index().z == 0)
            add_overlay(p, to, token + j * 8, first, second);
          put<BF>(p.result, to, token + j * 8, first, second);
        }
      }
  }
};

}  // namespace sk
