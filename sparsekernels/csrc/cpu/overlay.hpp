// Single entries outside the tiles: one run of tokens for each.

template <int NV, class Wt>
static void overlay_rows(const Overlay& o, int64_t from, int64_t to, const float* panel, float* out) {
  const Wt* w = (const Wt*)o.values;
  for (int64_t row = from; row < to; row++) {
    if (o.ptr[row] == o.ptr[row + 1]) continue;
    float* place = out + row * (NV * SK_W);
    vf acc[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) acc[v] = load(place + v * SK_W);
    for (int64_t i = o.ptr[row]; i < o.ptr[row + 1]; i++) {
      const vf b = splat(widen(w[i]));
      const float* x = panel + (int64_t)o.cols[i] * (NV * SK_W);
#pragma GCC unroll 8
      for (int v = 0; v < NV; v++) acc[v] += b * load(x + v * SK_W);
    }
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) store(place + v * SK_W, acc[v]);
  }
}

template <class Wt>
static void overlay_as(const Overlay& o, int64_t from, int64_t to, const float* panel, int nv, float* out) {
  if (nv == 1) return overlay_rows<1, Wt>(o, from, to, panel, out);
  if (nv == 2) return overlay_rows<2, Wt>(o, from, to, panel, out);
  if (nv == 3) return overlay_rows<3, Wt>(o, from, to, panel, out);
#if SK_NV >= 4
  if (nv == 4) return overlay_rows<4, Wt>(o, from, to, panel, out);
#endif
}
static void overlay(int bf16, const Overlay& o, int64_t from, int64_t to, const float* panel, int nv,
                    float* out) {
  bf16 ? overlay_as<uint16_t>(o, from, to, panel, nv, out) : overlay_as<float>(o, from, to, panel, nv, out);
}

template <class X>
static void overlay_few_as(const Overlay& o, int64_t rows, const X* x, int64_t ldx, int tokens, X* y,
                           int64_t ldy) {
  for (int64_t row = 0; row < rows; row++)
    for (int t = 0; t < tokens && o.ptr[row] < o.ptr[row + 1]; t++) {
      float sum = widen(y[t * ldy + row]);
      for (int64_t i = o.ptr[row]; i < o.ptr[row + 1]; i++)
        sum += widen(((const X*)o.values)[i]) * widen(x[t * ldx + o.cols[i]]);
      narrow(sum, y + t * ldy + row);
    }
}
static void overlay_few(int bf16, const Overlay& o, int64_t rows, const void* x, int64_t ldx, int tokens,
                        void* y, int64_t ldy) {
  bf16 ? overlay_few_as(o, rows, (const uint16_t*)x, ldx, tokens, (uint16_t*)y, ldy)
       : overlay_few_as(o, rows, (const float*)x, ldx, tokens, (float*)y, ldy);
}
