// Groups of rows that share kept columns: vector-wise, Shfl-BW, block and tile-wise weights.

// Columns handled at a time: their part of a full panel and the weights of a group share the L1 cache.
constexpr int64_t COLUMNS = SK_COLUMNS;
constexpr int64_t ROWS = 256;  // rows of a group converted from bf16 at a time

// MR rows times NV vectors of tokens; out[i] are the rows' places, to be added to where `add`.
template <int NV, int MR>
SK_INLINE void tile(const float* panel, const float* w, int64_t ldw, const int32_t* col, int64_t count,
                    bool add, float* const* out) {
  vf acc[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) acc[i][v] = add ? load(out[i] + v * SK_W) : (vf){};
  for (int64_t q = 0; q < count; q++, w += ldw) {
    const float* x = panel + (int64_t)col[q] * (NV * SK_W);
    vf xv[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) xv[v] = load(x + v * SK_W);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const vf b = splat(w[i]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; v++) acc[i][v] += b * xv[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) store(out[i] + v * SK_W, acc[i][v]);
}

SK_INLINE const float* block_of(const float* w, int64_t, int64_t, int64_t, float*, int64_t& ld, int64_t rows) {
  ld = rows;
  return w;
}
// bf16 weights become float once for each block and panel: little beside the products they enter.
SK_INLINE const float* block_of(const uint16_t* w, int64_t count, int64_t from, int64_t to, float* scratch,
                                int64_t& ld, int64_t rows) {
  for (int64_t q = 0; q < count; q++)
    for (int64_t r = from; r < to; r += 8)
      *(v8_any*)(scratch + q * ROWS + (r - from)) = load8(w + q * rows + r);
  ld = ROWS;
  return scratch - from;
}

template <int NV, int MR, class Wt>
static void gather_groups(const Groups& g, int64_t from, int64_t to, const float* panel, float* out) {
  alignas(64) float waste[NV * SK_W];
  alignas(64) float scratch[sizeof(Wt) == 2 ? COLUMNS * ROWS : 1];
  for (int64_t i = from; i < to; i++) {
    const int64_t rows = g.rowptr[i + 1] - g.rowptr[i], cols = g.colptr[i + 1] - g.colptr[i];
    const Wt* w = (const Wt*)g.values + g.valptr[i];
    const int32_t *col = g.cols + g.colptr[i], *row = g.rows + g.rowptr[i];
    for (int64_t r0 = 0; r0 < rows; r0 += ROWS) {
      const int64_t r1 = r0 + ROWS < rows ? r0 + ROWS : rows;
      for (int64_t q = 0; q == 0 || q < cols; q += COLUMNS) {  // at least once: no column gives zeros
        const int64_t count = cols - q < COLUMNS ? cols - q : COLUMNS;
        int64_t ld;
        const float* block = block_of(w + q * rows, count, r0, r1, scratch, ld, rows);
        for (int64_t r = r0; r < r1; r += MR) {
          float* place[MR];
          for (int k = 0; k < MR; k++)
            place[k] = row[r + k] < 0 ? waste : out + (int64_t)row[r + k] * (NV * SK_W);
          tile<NV, MR>(panel, block + r, ld, col + q, count, q > 0, place);
        }
      }
    }
  }
}

template <class Wt>
static void gather_as(const Groups& g, int64_t from, int64_t to, const float* panel, int nv, float* out) {
  if (nv == 1) return gather_groups<1, 8, Wt>(g, from, to, panel, out);
  if (nv == 2) return gather_groups<2, SK_MR2, Wt>(g, from, to, panel, out);
  if (nv == 3) return gather_groups<3, SK_MR3, Wt>(g, from, to, panel, out);
#if SK_NV >= 4
  if (nv == 4) return gather_groups<4, 4, Wt>(g, from, to, panel, out);
#endif
}
static void gather(int bf16, const Groups& g, int64_t from, int64_t to, const float* panel, int nv,
                   float* out) {
  bf16 ? gather_as<uint16_t>(g, from, to, panel, nv, out) : gather_as<float>(g, from, to, panel, nv, out);
}

// ---- few tokens: bound by reading the weights, once, in order; vectors run over rows -----------------
template <int TB, int NR, class X>
SK_INLINE void few_tile(const X* w, int64_t rows, const int32_t* col, int64_t count, const X* x,
                        int64_t ldx, const int32_t* row, const float* bias, X* y, int64_t ldy) {
  v8 acc[TB][NR] = {};
  for (int64_t q = 0; q < count; q++, w += rows) {
    v8 wv[NR];
#pragma GCC unroll 8
    for (int r = 0; r < NR; r++) wv[r] = load8(w + r * 8);
    const X* xc = x + col[q];
#pragma GCC unroll 8
    for (int t = 0; t < TB; t++) {
      const v8 b = splat8(widen(xc[t * ldx]));
#pragma GCC unroll 8
      for (int r = 0; r < NR; r++) acc[t][r] += b * wv[r];
    }
  }
  for (int t = 0; t < TB; t++)
    for (int r = 0; r < NR; r++)
      for (int k = 0; k < 8; k++) {
        const int32_t at = row[r * 8 + k];
        if (at >= 0) narrow(acc[t][r][k] + (bias ? bias[at] : 0.f), y + t * ldy + at);
      }
}

template <int TB, class X>
static void few_groups(const Groups& g, int64_t from, int64_t to, const X* x, int64_t ldx,
                       const float* bias, X* y, int64_t ldy) {
  for (int64_t i = from; i < to; i++) {
    const int64_t rows = g.rowptr[i + 1] - g.rowptr[i], cols = g.colptr[i + 1] - g.colptr[i];
    const X* w = (const X*)g.values + g.valptr[i];
    const int32_t *col = g.cols + g.colptr[i], *row = g.rows + g.rowptr[i];
    int64_t r = 0;
    for (; r + 32 <= rows; r += 32)
      few_tile<TB, 4, X>(w + r, rows, col, cols, x, ldx, row + r, bias, y, ldy);
    for (; r < rows; r += 8) few_tile<TB, 1, X>(w + r, rows, col, cols, x, ldx, row + r, bias, y, ldy);
  }
}

template <class X>
static void few_as(const Groups& g, int64_t from, int64_t to, const X* x, int64_t ldx, int tokens,
                   const float* bias, X* y, int64_t ldy) {
  int t = 0;
  for (; t + SK_TB <= tokens; t += SK_TB)
    few_groups<SK_TB, X>(g, from, to, x + t * ldx, ldx, bias, y + t * ldy, ldy);
  const int left = tokens - t;
  x += t * ldx;
  y += t * ldy;
  if (left == 1) few_groups<1, X>(g, from, to, x, ldx, bias, y, ldy);
  if (left == 2) few_groups<2, X>(g, from, to, x, ldx, bias, y, ldy);
#if SK_TB > 3
  if (left == 3) few_groups<3, X>(g, from, to, x, ldx, bias, y, ldy);
#endif
}
static void gather_few(int bf16, const Groups& g, int64_t from, int64_t to, const void* x, int64_t ldx,
                       int tokens, const float* bias, void* y, int64_t ldy) {
  bf16 ? few_as(g, from, to, (const uint16_t*)x, ldx, tokens, bias, (uint16_t*)y, ldy)
       : few_as(g, from, to, (const float*)x, ldx, tokens, bias, (float*)y, ldy);
}
