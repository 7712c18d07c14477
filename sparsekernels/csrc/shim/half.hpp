// The two 16-bit float types, in software.
#pragma once
#include <stdint.h>
#include <string.h>

#include <cmath>

namespace shim {

inline float as_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
inline uint32_t as_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}

template <bool BF>
float widen(uint16_t h) {
  if (BF) return as_float((uint32_t)h << 16);
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float sign = h & 0x8000 ? -1.f : 1.f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp((float)fraction, -24);
  return sign * std::ldexp((float)(1024 + fraction), exponent - 25);
}

template <bool BF>
uint16_t narrow(float f) {  // to the nearest, ties to even
  if (f != f) return 0x7fff;
  if (BF) {
    const uint32_t u = as_bits(f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  const float a = std::fabs(f);
  if (a == 0.f) return sign;
  if (a >= 65520.f) return sign | 0x7c00;
  int exponent;
  std::frexp(a, &exponent);
  const int place = exponent < -13 ? -24 : exponent - 11;  // of the last bit that is kept
  const int whole = (int)std::nearbyint(std::ldexp(a, -place));
  if (place == -24 && whole < 1024) return sign | (uint16_t)whole;
  // a carry into the next power of two needs no care: it raises the exponent by itself
  return sign | (uint16_t)(((place + 24) << 10) + whole);
}

}  // namespace shim
