// What 32 lanes do together, carried out when the last of them has arrived. Layouts are those of the PTX
// ISA: "Matrix fragments for mma.m16n8k16" and "Matrix fragments for sparse mma.m16n8k32", 16-bit types;
// lane l has group l / 4 and place l % 4 in it.
#pragma once
#include <stdexcept>
#include <string>

#include "half.hpp"

namespace shim {

enum class Op { none, shuffle, sync, ldmatrix, ldmatrix_trans, mma, mma_sp };

struct Request {  // what a lane brings, and what it takes away in `words` or `d`
  Op op = Op::none;
  int number = 0;  // shuffle: source lane; mma: 1 for bf16; mma_sp: also the selector, in bit 1
  const void* address = nullptr;
  uint32_t a[4], b[4], e = 0, words[4];
  float c[4], d[4];
};

[[noreturn]] inline void wrong(const std::string& text) { throw std::runtime_error(text); }

struct SharedMemory {
  char* begin = nullptr;
  size_t size = 0;
  void check(const void* p, size_t bytes, size_t align, const char* who) const {
    const char* at = (const char*)p;
    if (at < begin || at + bytes > begin + size) wrong(std::string(who) + ": outside shared memory");
    if ((uintptr_t)at % align) wrong(std::string(who) + ": misaligned");
  }
};

template <bool BF>
float half_of(const uint32_t* words, int i) {
  return widen<BF>((uint16_t)(words[i / 2] >> 16 * (i % 2)));
}

template <bool BF>
void mma_16x8x16(Request* const* lane) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 8; i++) {
      const int group = l / 4, two = l % 4 * 2 + i % 2;
      a[group + i / 2 % 2 * 8][two + i / 4 * 8] = half_of<BF>(lane[l]->a, i);
      if (i < 4) b[two + i / 2 * 8][group] = half_of<BF>(lane[l]->b, i);
    }
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) {
      const int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
      double sum = lane[l]->c[i];
      for (int k = 0; k < 16; k++) sum += (double)a[row][k] * b[k][col];
      lane[l]->d[i] = (float)sum;
    }
}

// Metadata: of the four lanes of a group, those numbered 2 * selector and the next hold 32 bits each: rows
// `group` (low half) and `group` + 8, the first lane for columns 0..15 and the second for 16..31; a nibble
// for each four columns, the position of the first kept in its low two bits, which must be the lower one.
template <bool BF>
void mma_sp_16x8x32(Request* const* lane) {
  float a[16][32] = {}, b[32][8];
  const int selector = lane[0]->number >> 1;
  if (selector > 1) wrong("mma.sp: the selector of m16n8k32 is 0 or 1");
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 8; i++) {
      const int group = l / 4, place = l % 4, high = i / 2 % 2, four = place + i / 4 * 4;
      const uint32_t word = lane[group * 4 + selector * 2 + four / 4]->e;
      const uint32_t nibble = word >> (16 * high + four % 4 * 4) & 15;
      if ((nibble & 3) >= nibble >> 2) wrong("mma.sp: positions of four columns do not rise");
      const int column = four * 4 + (i % 2 ? nibble >> 2 : nibble & 3);
      a[group + high * 8][column] = half_of<BF>(lane[l]->a, i);
      b[place * 2 + i % 2 + i / 2 * 8][group] = half_of<BF>(lane[l]->b, i);
    }
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) {
      const int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
      double sum = lane[l]->c[i];
      // what is not kept is not multiplied: it may be infinite
      for (int k = 0; k < 32; k++)
        if (a[row][k] != 0.f) sum += (double)a[row][k] * b[k][col];
      lane[l]->d[i] = (float)sum;
    }
}

inline void ldmatrix_x4(Request* const* lane, const SharedMemory& shared, bool trans) {
  uint16_t m[4][8][8];
  for (int l = 0; l < 32; l++) {
    shared.check(lane[l]->address, 16, 16, "ldmatrix");
    memcpy(m[l / 8][l % 8], lane[l]->address, 16);
  }
  for (int l = 0; l < 32; l++)
    for (int j = 0; j < 4; j++) {
      const int g = l / 4, t = l % 4 * 2;
      const uint16_t low = trans ? m[j][t][g] : m[j][g][t], high = trans ? m[j][t + 1][g] : m[j][g][t + 1];
      lane[l]->words[j] = low | (uint32_t)high << 16;
    }
}

inline void run_warp(Request* const* lane, const SharedMemory& shared) {
  for (int l = 1; l < 32; l++)
    if (lane[l]->op != lane[0]->op) wrong("lanes of a warp met at different operations");
  const bool bf = lane[0]->number & 1;
  uint32_t given[32];
  switch (lane[0]->op) {
    case Op::sync: break;
    case Op::shuffle:
      for (int l = 0; l < 32; l++) given[l] = lane[l]->a[0];
      for (int l = 0; l < 32; l++) lane[l]->words[0] = given[lane[l]->number & 31];
      break;
    case Op::ldmatrix: ldmatrix_x4(lane, shared, false); break;
    case Op::ldmatrix_trans: ldmatrix_x4(lane, shared, true); break;
    case Op::mma: bf ? mma_16x8x16<true>(lane) : mma_16x8x16<false>(lane); break;
    case Op::mma_sp: bf ? mma_sp_16x8x32<true>(lane) : mma_sp_16x8x32<false>(lane); break;
    case Op::none: wrong("a lane waits for nothing");
  }
}

}  // namespace shim
