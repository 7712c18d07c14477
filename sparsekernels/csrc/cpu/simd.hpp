// Vectors of SK_W floats in the compiler's own vector syntax: one source for SSE2, NEON, AVX2 and
// AVX-512. Included inside a namespace, once for each instruction set.

typedef float vf __attribute__((vector_size(SK_W * 4)));
typedef int32_t vi __attribute__((vector_size(SK_W * 4)));
typedef uint16_t vh __attribute__((vector_size(SK_W * 2)));
typedef vf vf_any __attribute__((aligned(4), may_alias));
typedef vh vh_any __attribute__((aligned(2), may_alias));
// Decoding vectorises over rows, which come in eights whatever the instruction set.
typedef float v8 __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef v8 v8_any __attribute__((aligned(4), may_alias));
typedef v8h v8h_any __attribute__((aligned(2), may_alias));

#define SK_INLINE static inline __attribute__((always_inline))

SK_INLINE vf load(const float* p) { return *(const vf_any*)p; }
SK_INLINE vf load(const uint16_t* p) {  // bf16
  return (vf)(__builtin_convertvector(*(const vh_any*)p, vi) << 16);
}
SK_INLINE v8 load8(const float* p) { return *(const v8_any*)p; }
SK_INLINE v8 load8(const uint16_t* p) {
  return (v8)(__builtin_convertvector(*(const v8h_any*)p, v8i) << 16);
}
SK_INLINE void store(float* p, vf v) { *(vf_any*)p = v; }
// To the nearest bf16, ties to even; a NaN stays one.
SK_INLINE void store(uint16_t* p, vf v) {
  vi u = (vi)v;
  vi round = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  vi nan = v != v;
  *(vh_any*)p = __builtin_convertvector((round & ~nan) | (nan & 0x7fc0), vh);
}
SK_INLINE float widen(float v) { return v; }
SK_INLINE float widen(uint16_t v) {
  union { uint32_t u; float f; } w = {(uint32_t)v << 16};
  return w.f;
}
SK_INLINE void narrow(float v, float* p) { *p = v; }
SK_INLINE void narrow(float v, uint16_t* p) {
  union { float f; uint32_t u; } w = {v};
  *p = v != v ? 0x7fc0 : (uint16_t)((w.u + 0x7fff + ((w.u >> 16) & 1)) >> 16);
}
SK_INLINE vf splat(float s) { return s - (vf){}; }
SK_INLINE v8 splat8(float s) { return s - (v8){}; }

#if SK_W == 16
#define SK_LOW (vi){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define SK_HIGH (vi){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
#elif SK_W == 8
#define SK_LOW (vi){0, 8, 1, 9, 2, 10, 3, 11}
#define SK_HIGH (vi){4, 12, 5, 13, 6, 14, 7, 15}
#else
#define SK_LOW (vi){0, 4, 1, 5}
#define SK_HIGH (vi){2, 6, 3, 7}
#endif

// Transpose SK_W vectors: after log2 rounds of interleaving row i with row i + SK_W / 2.
SK_INLINE void transpose(vf (&r)[SK_W]) {
#pragma GCC unroll 4
  for (int round = 1; round < SK_W; round *= 2) {
    vf next[SK_W];
#pragma GCC unroll 8
    for (int i = 0; i < SK_W / 2; i++) {
      next[2 * i] = __builtin_shuffle(r[i], r[i + SK_W / 2], SK_LOW);
      next[2 * i + 1] = __builtin_shuffle(r[i], r[i + SK_W / 2], SK_HIGH);
    }
#pragma GCC unroll 16
    for (int i = 0; i < SK_W; i++) r[i] = next[i];
  }
}
