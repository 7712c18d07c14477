// Gather + mma.sp: rows that keep 2 of every 4 entries of a list of columns. Without a list this is 2:4; with
// four live columns of each M it is V:N:M, with a tile's own order HiNM.
#pragma once
#include "result.cuh"
#include "source.cuh"

namespace sk {

template <bool BF, int V, int TOKENS, bool WINDOWS>
struct Picked {
  using Args = PickedArgs;
  using From = Source<WINDOWS>;
  static constexpr bool FROM_WINDOWS = WINDOWS;
  static constexpr int K = 64, STAGES = 3, WARPS = V == 128 ? TOKENS / 16 : TOKENS / 32, THREADS = WARPS * 32;
  static constexpr int HIGH = V >= 64 ? 2 : 1, WIDE = WARPS / HIGH;
  static constexpr int ROWS = V / HIGH, COLS = TOKENS / WIDE;
  static constexpr int A = V * K / 2, B = K * TOKENS, SHARED = STAGES * (A + B) * 2;
  static constexpr int A_CHUNKS = K / 16, B_CHUNKS = TOKENS / 8, IDS = K * B_CHUNKS / THREADS;
  static constexpr uint32_t NOTHING = 0x44444444;  // a legal word for values that are zero
  static_assert(ROWS % 16 == 0 && COLS % 16 == 0, "tiles of whole fragments");
  static_assert(THREADS % B_CHUNKS == 0, "a thread copies the same eight tokens of every column");

  SK_DEVICE static void fetch(const int32_t* list, int64_t k0, int64_t to, int32_t (&id)[IDS]) {
#pragma unroll
    for (int i = 0; i < IDS; i++) {
      const int64_t k = k0 + (thread_index() + i * THREADS) / B_CHUNKS;
      id[i] = k < to ? (list ? list[k] : (int32_t)k) : -1;
    }
  }
  SK_DEVICE static void load(const PickedArgs& p, const From& from, int64_t k0, int64_t to,
                             const int32_t (&id)[IDS], uint16_t* a, uint16_t* b) {
    const int64_t first = (int64_t)block_index().y * V;
    for (int c = thread_index(); c < V * A_CHUNKS; c += THREADS) {
      const int r = c / A_CHUNKS, q = c % A_CHUNKS;
      const bool valid = first + r < p.height && k0 + q * 16 < to;
      const uint16_t* values = p.values + (first + r) * (p.length / 2) + k0 / 2 + q * 8;
      copy16(a + swizzled<A_CHUNKS>(r, q), valid ? values : p.values, valid);
    }
#pragma unroll
    for (int i = 0; i < IDS; i++) {
      const int c = thread_index() + i * THREADS, k = c / B_CHUNKS, q = c % B_CHUNKS;
      const uint16_t* const address = from.at(p, id[i]);
      copy16(b + swizzled<B_CHUNKS>(k, q), address ? address : p.xt, address != nullptr);
    }
    copy_commit();
  }

  // This lane's metadata of one step; lanes 2 and 3 of a group of four are not asked for theirs.
  SK_DEVICE static void fetch_words(const PickedArgs& p, int64_t row, int64_t k0, int64_t to,
                                    uint32_t (&e)[ROWS / 16][2]) {
    const int lane = thread_index() % 32;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int64_t tile = (row + i * 16) / 16, k = k0 + half * 32;
        const bool valid = row + i * 16 < p.height && k < to;
        e[i][half] =
            valid ? p.words[(tile * (p.length / 32) + k / 32) * 16 + lane / 4 * 2 + lane % 2] : NOTHING;
      }
  }

  SK_DEVICE static void multiply(const uint16_t* a_tile, const uint16_t* b_tile, int row, int col,
                                 const uint32_t (&e)[ROWS / 16][2], float (&sum)[ROWS / 16][COLS / 8][4]) {
    const int lane = thread_index() % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t a[ROWS / 16][4];
#pragma unroll
      for (int i = 0; i < ROWS / 16; i++)
        ldmatrix(a[i], a_tile + swizzled<A_CHUNKS>(row + i * 16 + (lane & 15), half * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < COLS / 16; j++) {
        uint32_t low[4], high[4];
        const int k = half * 32 + (lane & 15), chunk = (col + j * 16) / 8 + (lane >> 4);
        ldmatrix_trans(low, b_tile + swizzled<B_CHUNKS>(k, chunk));
        ldmatrix_trans(high, b_tile + swizzled<B_CHUNKS>(k + 16, chunk));
        const uint32_t left[4] = {low[0], low[1], high[0], high[1]};
        const uint32_t right[4] = {low[2], low[3], high[2], high[3]};
#pragma unroll
        for (int i = 0; i < ROWS / 16; i++) {
          mma_sp<BF>(sum[i][j * 2], a[i], left, e[i][half]);
          mma_sp<BF>(sum[i][j * 2 + 1], a[i], right, e[i][half]);
        }
      }
    }
  }

  SK_DEVICE static void run(const PickedArgs& p) {
    SK_SHARED(memory);
    uint16_t *a = (uint16_t*)memory, *b = a + STAGES * A;
    const int warp = thread_index() / 32, row = warp % HIGH * ROWS, col = warp / HIGH * COLS;
    const int64_t first = (int64_t)block_index().y * V;
    const int32_t* list = p.cols ? p.cols + first / p.share * p.length : nullptr;
    const int64_t all = (p.length + K - 1) / K, z = block_index().z, splits = grid_size().z;
    const From from(p, (int64_t)block_index().x * TOKENS + thread_index() % B_CHUNKS * 8);
    const int64_t begin = all * z / splits * K, end = all * (z + 1) / splits * K;
    const int64_t to = end < p.length ? end : p.length;
    const int steps = to > begin ? (int)((to - begin + K - 1) / K) : 0;
    float sum[ROWS / 16][COLS / 8][4] = {};
    int32_t id[IDS];
    uint32_t e[ROWS / 16][2];
    fetch(list, begin, to, id);
    for (int s = 0; s < STAGES - 1; s++) {
      if (s < steps) load(p, from, begin + s * K, to, id, a + s * A, b + s * B);
      else copy_commit();
      fetch(list, begin + (s + 1) * K, to, id);
    }
    for (int s = 0; s < steps; s++) {
      fetch_words(p, first + row, begin + s * K, to, e);
      copy_wait<STAGES - 2>();
      sync_threads();
      const int next = s + STAGES - 1;
      if (next < steps) load(p, from, begin + next * K, to, id, a + next % STAGES * A, b + next % STAGES * B);
      else copy_commit();
      fetch(list, begin + (next + 1) * K, to, id);
      multiply(a + s % STAGES * A, b + s % STAGES * B, row, col, e, sum);
    }
    copy_wait<0>();

    const int lane = thread_index() % 32;
    const int64_t token = (int64_t)block_index().x * TOKENS + col + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int64_t place = first + row + i * 16 + lane / 4 + h * 8;
        int64_t out = place;
        if (place >= p.height) out = -1;
        else if (p.rows) out = p.rows[place];
        else if (place >= p.result.rows) out = -1;
#pragma unroll
        for (int j = 0; j < COLS / 8; j++) put<BF>(p.result, out, token + j * 8, sum[i][j][h * 2], sum[i][j][h * 2 + 1]);
      }
  }
};

}  // namespace sk
