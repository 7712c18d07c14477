// What the entry points take: plain structures that a host compiler and ctypes can fill as well.
#pragma once
#include <stdint.h>

namespace sk {

struct Result {
  uint16_t* y;        // [rows][ld]
  const uint16_t* c;  // the same, or null
  const float* bias;  // [rows], or null
  float* part;        // [splits][rows][ld], or null
  int64_t rows, ld;   // ld: tokens rounded up to eights
  float alpha, beta;
};

struct GatherArgs {
  const uint16_t* values;
  const int64_t *colptr, *rowptr, *valptr;
  const int32_t *cols, *rows;
  const uint16_t* xt;  // [columns][ldx], ldx in eights
  int64_t ldx;
  const int64_t* overlay_ptr;  // single entries as CSR over the output's rows, or null
  const int32_t* overlay_cols;
  const uint16_t* overlay;
  Result result;
};

struct PickedArgs {
  const uint16_t* values;         // [height][length / 2]
  const uint32_t* words;          // [height / 16][length / 32][16]: metadata in the order of mma.sp
  const int32_t* cols;            // [height / share][length], or null
  const int32_t* rows;            // [height], -1 nowhere, or null: row r to r
  int64_t height, length, share;  // height: a multiple of 16; length of 32; share of V
  const uint16_t* xt;             // [columns][ldx], ldx in eights
  int64_t ldx;
  Result result;
};

}  // namespace sk

extern "C" {
// `v` x `tokens` is the tile of a block of threads; `splits` parts of the columns are added up afterwards.
int sk_gather(int bf16, int v, int tokens, const sk::GatherArgs* args, int groups, int splits, void* stream,
              unsigned seed);
int sk_picked(int bf16, int v, int tokens, const sk::PickedArgs* args, int splits, void* stream, unsigned seed);
#ifdef SK_HOST
const char* sk_message();
uint64_t sk_products();
#endif
}
