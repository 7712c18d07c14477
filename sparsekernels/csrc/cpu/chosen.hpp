// Rows that choose n of every m columns for themselves: N:M, and over a list of columns V:N:M and HiNM.
// A kept weight meets its column's run of tokens straight from the L1 cache, one load for each product.

constexpr int64_t SLICE = SK_COLUMNS;  // columns whose runs stay in the L1 cache

// Where the kept columns of a row begin in a panel, in vectors of tokens: column * width.
SK_INLINE void places_of(const Chosen& c, int64_t row, int width, int32_t* place) {
  const int32_t* list = c.cols ? c.cols + row / c.share * c.length : nullptr;
  const uint8_t* meta = c.meta + row * ((c.kept * c.bits + 7) / 8);
  const int mask = (1 << c.bits) - 1;
  int in_group = 0;
  int32_t base = 0;
  for (int64_t j = 0; j < c.kept; j++) {
    const int64_t bit = j * c.bits;
    const int e = (meta[bit >> 3] >> (bit & 7)) & mask;
    const int32_t at = base + (e < c.m ? e : c.m - 1);  // damaged metadata stays inside its group
    place[j] = (list ? list[at] : at) * width;
    if (++in_group == c.n) in_group = 0, base += c.m;
  }
}
// 2:4, the common case: a byte holds two groups.
SK_INLINE void places_of_24(const Chosen& c, int64_t row, int width, int32_t* place) {
  const int32_t* list = c.cols ? c.cols + row / c.share * c.length : nullptr;
  const uint8_t* meta = c.meta + row * (c.kept / 4);
  for (int64_t b = 0; b < c.kept / 4; b++) {
    const int e = meta[b];
    const int32_t at[4] = {(int32_t)b * 8 + (e & 3), (int32_t)b * 8 + (e >> 2 & 3),
                           (int32_t)b * 8 + 4 + (e >> 4 & 3), (int32_t)b * 8 + 4 + (e >> 6)};
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) place[b * 4 + k] = (list ? list[at[k]] : at[k]) * width;
  }
}

template <int NV, int MR>
SK_INLINE void chosen_tile(const float* panel, const float* const* w, const int32_t* const* place,
                           int64_t from, int64_t to, float* const* out) {
  vf acc[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) acc[i][v] = from ? load(out[i] + v * SK_W) : (vf){};
  for (int64_t j = from; j < to; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const vf b = splat(w[i][j]);
      const float* x = panel + place[i][j];
#pragma GCC unroll 8
      for (int v = 0; v < NV; v++) acc[i][v] += b * load(x + v * SK_W);
    }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) store(out[i] + v * SK_W, acc[i][v]);
}

template <int NV, int MR>
static void chosen_panel(const Chosen& c, int64_t from, int64_t to, const float* values,
                         const int32_t* places, const float* panel, float* out) {
  alignas(64) float waste[NV * SK_W];
  const int64_t step = (SLICE + c.m - 1) / c.m * c.n;
  for (int64_t j = 0; j == 0 || j < c.kept; j += step) {
    const int64_t stop = j + step < c.kept ? j + step : c.kept;
    for (int64_t row = from; row < to; row += MR) {
      const float* w[MR];
      const int32_t* place[MR];
      float* put[MR];
      for (int k = 0; k < MR; k++) {  // past the end: the last row once more, into the waste
        const int64_t r = row + k < to ? row + k : to - 1;
        const int32_t id = row + k >= to ? -1 : c.rows ? c.rows[r] : (int32_t)r;
        w[k] = values + (r - from) * c.kept;
        place[k] = places + (r - from) * c.kept;
        put[k] = id < 0 ? waste : out + (int64_t)id * (NV * SK_W);
      }
      chosen_tile<NV, MR>(panel, w, place, j, stop, put);
    }
  }
}

static int64_t chosen_scratch(const Chosen& c, int64_t rows) { return rows * c.kept * 8 + 64; }

static void chosen(int bf16, const Chosen& c, int64_t from, int64_t to, const float* panels,
                   int64_t panel_stride, const int* nvs, int count, float* outs, int64_t out_stride,
                   void* scratch) {
  int32_t* places = (int32_t*)scratch;
  float* wide = (float*)(places + (to - from) * c.kept);
  const float* values = bf16 ? wide : (const float*)c.values + from * c.kept;
  if (bf16)
    for (int64_t i = 0; i < (to - from) * c.kept; i++)
      wide[i] = widen(((const uint16_t*)c.values)[from * c.kept + i]);
  for (int p = 0, width = 0; p < count; p++) {
    if (nvs[p] * SK_W != width) {  // panels of one call differ in width only at the end
      width = nvs[p] * SK_W;
      for (int64_t row = from; row < to; row++) {
        int32_t* place = places + (row - from) * c.kept;
        if (c.n == 2 && c.m == 4 && c.bits == 2 && c.kept % 4 == 0) places_of_24(c, row, width, place);
        else places_of(c, row, width, place);
      }
    }
    const float* panel = panels + p * panel_stride;
    float* out = outs + p * out_stride;
    if (nvs[p] == 1) chosen_panel<1, SK_CR1>(c, from, to, values, places, panel, out);
    if (nvs[p] == 2) chosen_panel<2, 4>(c, from, to, values, places, panel, out);
    if (nvs[p] == 3) chosen_panel<3, SK_CR3>(c, from, to, values, places, panel, out);
#if SK_NV >= 4
    if (nvs[p] == 4) chosen_panel<4, 2>(c, from, to, values, places, panel, out);
#endif
  }
}
