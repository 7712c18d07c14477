// Activations into panels and products out of them: transposes by whole vectors.

template <class X>
static void pack_as(const X* x, int64_t ld, int64_t from, int64_t to, int tokens, int nv, float* panel) {
  const int width = nv * SK_W;
  for (int block = 0; block < nv; block++) {
    const int live = tokens - block * SK_W < SK_W ? tokens - block * SK_W : SK_W;
    const X* base = x + (int64_t)block * SK_W * ld;
    float* to_panel = panel + block * SK_W;
    int64_t c = from;
    for (; c + SK_W <= to; c += SK_W) {
      vf r[SK_W];
      if (live == SK_W)
        for (int t = 0; t < SK_W; t++) r[t] = load(base + t * ld + c);
      else
        for (int t = 0; t < SK_W; t++) r[t] = t < live ? load(base + t * ld + c) : (vf){};
      transpose(r);
      for (int i = 0; i < SK_W; i++) store(to_panel + (c + i) * width, r[i]);
    }
    for (; c < to; c++)
      for (int t = 0; t < SK_W; t++)
        to_panel[c * width + t] = t < live ? widen(base[t * ld + c]) : 0.f;
  }
}

template <class Y>
static void unpack_as(const float* out, int64_t from, int64_t to, int tokens, int nv, const float* bias,
                      Y* y, int64_t ld) {
  const int width = nv * SK_W;
  for (int block = 0; block * SK_W < tokens; block++) {
    const int live = tokens - block * SK_W < SK_W ? tokens - block * SK_W : SK_W;
    const float* base = out + block * SK_W;
    Y* to_y = y + (int64_t)block * SK_W * ld;
    int64_t row = from;
    for (; row + SK_W <= to; row += SK_W) {
      vf r[SK_W];
      for (int i = 0; i < SK_W; i++) r[i] = load(base + (row + i) * width);
      transpose(r);
      const vf add = bias ? load(bias + row) : (vf){};
      if (live == SK_W)
        for (int t = 0; t < SK_W; t++) store(to_y + t * ld + row, r[t] + add);
      else
        for (int t = 0; t < SK_W; t++)
          if (t < live) store(to_y + t * ld + row, r[t] + add);
    }
    for (; row < to; row++)
      for (int t = 0; t < live; t++)
        narrow(base[row * width + t] + (bias ? bias[row] : 0.f), to_y + t * ld + row);
  }
}

static void pack(int bf16, const void* x, int64_t ld, int64_t from, int64_t to, int tokens, int nv,
                 float* panel) {
  bf16 ? pack_as((const uint16_t*)x, ld, from, to, tokens, nv, panel)
       : pack_as((const float*)x, ld, from, to, tokens, nv, panel);
}
static void unpack(int bf16, const float* out, int64_t from, int64_t to, int tokens, int nv,
                   const float* bias, void* y, int64_t ld) {
  bf16 ? unpack_as(out, from, to, tokens, nv, bias, (uint16_t*)y, ld)
       : unpack_as(out, from, to, tokens, nv, bias, (float*)y, ld);
}
