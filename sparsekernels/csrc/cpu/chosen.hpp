// Rows that choose n of every m columns for themselves: N:M, and over a list of columns V:N:M and HiNM.
// A kept weight meets its column's run of tokens straight from the L1 cache, one load for each product.
//
// Metadata is decoded once a call into a stream that is then read in order for every panel: chunk of rows
// by chunk, within it slice of columns by slice, within that row by row the values and their columns.

constexpr int64_t SLICE = SK_COLUMNS;  // columns whose runs stay in the L1 cache

SK_INLINE int64_t slice_step(const Chosen& c) { return (SLICE + c.m - 1) / c.m * c.n; }

SK_INLINE void columns_of(const Chosen& c, int64_t row, int64_t from, int64_t count, const int32_t* list,
                          int32_t* col) {
  const uint8_t* meta = c.meta + row * ((c.kept * c.bits + 7) / 8);
  const int mask = (1 << c.bits) - 1;
  int in_group = 0;
  int64_t base = from / c.n * c.m;
  for (int64_t j = 0; j < count; j++) {
    const int64_t bit = (from + j) * c.bits;
    const int e = (meta[bit >> 3] >> (bit & 7)) & mask;
    const int64_t at = base + (e < c.m ? e : c.m - 1);  // damaged metadata stays inside its group
    col[j] = list ? list[at] : (int32_t)at;
    if (++in_group == c.n) in_group = 0, base += c.m;
  }
}

// 2:4, the common case: a byte of metadata chooses 4 of 8 columns, which is one shuffle of a vector.
struct Pairs {
  alignas(32) int32_t at[256][8];
};
static constexpr Pairs make_pairs() {
  Pairs p{};
  for (int e = 0; e < 256; e++)
    for (int k = 0; k < 4; k++) p.at[e][k] = (e >> 2 * k & 3) + k / 2 * 4;
  return p;
}
static constexpr Pairs PAIRS = make_pairs();
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef uint16_t v4h __attribute__((vector_size(8)));
typedef v4 v4_any __attribute__((aligned(4), may_alias));
typedef v4i v4i_any __attribute__((aligned(4), may_alias));
typedef v4h v4h_any __attribute__((aligned(2), may_alias));
typedef v8i v8i_any __attribute__((aligned(4), may_alias));

SK_INLINE bool is_24(const Chosen& c) { return c.n == 2 && c.m == 4 && c.bits == 2 && c.kept % 4 == 0; }

SK_INLINE void columns_of_24(const Chosen& c, int64_t row, int64_t from, int64_t count,
                             const int32_t* list, int32_t* col) {
  const uint8_t* meta = c.meta + row * (c.kept / 4);
  for (int64_t j = 0; j < count; j += 4) {
    const int64_t base = (from + j) * 2;
    const v8i which = *(const v8i*)PAIRS.at[meta[(from + j) / 4]];
    const v8i four = list ? __builtin_shuffle(*(const v8i_any*)(list + base), which) : which + (int32_t)base;
    *(v4i_any*)(col + j) = __builtin_shufflevector(four, four, 0, 1, 2, 3);
  }
}

template <class X>
static void decode_as(const Chosen& c, int64_t from, int64_t to, float* stream) {
  const int64_t step = slice_step(c), rows = to - from;
  for (int64_t row = from; row < to; row++) {  // read in order, for the memory's sake
    const int32_t* list = c.cols ? c.cols + row / c.share * c.length : nullptr;
    for (int64_t j = 0; j < c.kept; j += step) {
      const int64_t count = j + step < c.kept ? step : c.kept - j;
      float* slice = stream + rows * j * 2 + (row - from) * count * 2;
      const X* values = (const X*)c.values + row * c.kept + j;
      for (int64_t i = 0; i < count; i++) slice[i] = widen(values[i]);
      is_24(c) ? columns_of_24(c, row, j, count, list, (int32_t*)slice + count)
               : columns_of(c, row, j, count, list, (int32_t*)slice + count);
    }
  }
}
static void chosen_decode(int bf16, const Chosen& c, int64_t from, int64_t to, float* stream) {
  bf16 ? decode_as<uint16_t>(c, from, to, stream) : decode_as<float>(c, from, to, stream);
}

// MR rows of one slice: each has `count` values and then their columns at w[i].
template <int NV, int MR>
SK_INLINE void chosen_tile(const float* panel, const float* const* w, int64_t count, bool add,
                           float* const* out) {
  vf acc[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) acc[i][v] = add ? load(out[i] + v * SK_W) : (vf){};
  for (int64_t j = 0; j < count; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const vf b = splat(w[i][j]);
      const float* x = panel + (int64_t)((const int32_t*)w[i])[count + j] * (NV * SK_W);
#pragma GCC unroll 8
      for (int v = 0; v < NV; v++) acc[i][v] += b * load(x + v * SK_W);
    }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) store(out[i] + v * SK_W, acc[i][v]);
}

template <int NV, int MR>
static void chosen_panel(const Chosen& c, int64_t from, int64_t to, const float* stream, const float* panel,
                         float* out) {
  alignas(64) float waste[NV * SK_W];
  const int64_t step = slice_step(c), rows = to - from;
  for (int64_t j = 0; j == 0 || j < c.kept; j += step) {  // at least once: no column gives zeros
    const int64_t count = j + step < c.kept ? step : c.kept - j;
    const float* slice = stream + rows * j * 2;
    for (int64_t row = from; row < to; row += MR) {
      const float* w[MR];
      float* put[MR];
      for (int k = 0; k < MR; k++) {  // past the end: the last row once more, into the waste
        const int64_t r = row + k < to ? row + k : to - 1;
        const int32_t id = row + k >= to ? -1 : c.rows ? c.rows[r] : (int32_t)r;
        w[k] = slice + (r - from) * count * 2;
        put[k] = id < 0 ? waste : out + (int64_t)id * (NV * SK_W);
      }
      chosen_tile<NV, MR>(panel, w, count, j > 0, put);
    }
  }
}

static void chosen(const Chosen& c, int64_t from, int64_t to, const float* stream, const float* panel, int nv,
                   float* out) {
  if (nv == 1) chosen_panel<1, SK_CR1>(c, from, to, stream, panel, out);
  if (nv == 2) chosen_panel<2, 4>(c, from, to, stream, panel, out);
  if (nv == 3) chosen_panel<3, SK_CR3>(c, from, to, stream, panel, out);
#if SK_NV >= 4
  if (nv == 4) chosen_panel<4, 2>(c, from, to, stream, panel, out);
#endif
}

// ---- few tokens of 2:4: activations are shuffled to the weights, which are read once, in order --------
SK_INLINE v4 load4(const float* p) { return *(const v4_any*)p; }
SK_INLINE v4 load4(const uint16_t* p) { return (v4)(__builtin_convertvector(*(const v4h_any*)p, v4i) << 16); }

template <int TB, int MR, class X>
SK_INLINE void few_24(const Chosen& c, int64_t row, int64_t to, const float* x, const float* bias, X* y,
                      int64_t ldy) {
  const int64_t bytes = c.kept / 4;
  const uint8_t* meta[MR];
  const X* w[MR];
  v4 acc[MR][TB] = {};
  for (int i = 0; i < MR; i++) {
    const int64_t r = row + i < to ? row + i : to - 1;
    meta[i] = c.meta + r * bytes;
    w[i] = (const X*)c.values + r * c.kept;
  }
  for (int64_t b = 0; b < bytes; b++)
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++) {
      const v8i which = *(const v8i*)PAIRS.at[meta[i][b]];
      const v4 wv = load4(w[i] + b * 4);
#pragma GCC unroll 4
      for (int t = 0; t < TB; t++) {
        const v8 four = __builtin_shuffle(load8(x + t * c.length + b * 8), which);
        acc[i][t] += wv * __builtin_shufflevector(four, four, 0, 1, 2, 3);
      }
    }
  for (int i = 0; i < MR && row + i < to; i++) {
    const int64_t at = c.rows ? c.rows[row + i] : row + i;
    for (int t = 0; t < TB && at >= 0; t++) {
      const v4 a = acc[i][t];
      narrow(a[0] + a[1] + a[2] + a[3] + (bias ? bias[at] : 0.f), y + t * ldy + at);
    }
  }
}

template <class X>
static void chosen_few_as(const Chosen& c, int64_t from, int64_t to, const X* x, int64_t ldx, int tokens,
                          const float* bias, X* y, int64_t ldy, float* gathered) {
  for (int64_t row = from; row < to;) {  // rows that share a list, and their activations side by side
    const int64_t stop = c.cols ? (row / c.share + 1) * c.share : to, end = stop < to ? stop : to;
    const int32_t* list = c.cols ? c.cols + row / c.share * c.length : nullptr;
    for (int t = 0; t < tokens; t++)
      for (int64_t j = 0; j < c.length; j++)
        gathered[t * c.length + j] = widen(x[t * ldx + (list ? list[j] : j)]);
    for (; row < end; row += 4) {
      int t = 0;
      for (; t + 4 <= tokens; t += 4) {
        const float* here = gathered + t * c.length;
#if SK_W == 16
        few_24<4, 4, X>(c, row, end, here, bias, y + t * ldy, ldy);
#else
        few_24<4, 2, X>(c, row, end, here, bias, y + t * ldy, ldy);
        if (row + 2 < end) few_24<4, 2, X>(c, row + 2, end, here, bias, y + t * ldy, ldy);
#endif
      }
      if (tokens - t >= 2) {
        few_24<2, 4, X>(c, row, end, gathered + t * c.length, bias, y + t * ldy, ldy);
        t += 2;
      }
      if (t < tokens) few_24<1, 4, X>(c, row, end, gathered + t * c.length, bias, y + t * ldy, ldy);
    }
    row = end;
  }
}
static void chosen_few(int bf16, const Chosen& c, int64_t from, int64_t to, const void* x, int64_t ldx,
                       int tokens, const float* bias, void* y, int64_t ldy, void* scratch) {
  float* room = (float*)scratch;
  bf16 ? chosen_few_as(c, from, to, (const uint16_t*)x, ldx, tokens, bias, (uint16_t*)y, ldy, room)
       : chosen_few_as(c, from, to, (const float*)x, ldx, tokens, bias, (float*)y, ldy, room);
}
