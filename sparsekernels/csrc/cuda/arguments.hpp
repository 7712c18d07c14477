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

// Division by multiplication, for numerators below 2^31: what a divider of `by` is made of.
struct Divider {
  uint32_t by = 1, factor = 0, shift = 0;
};
inline Divider divider(uint32_t by) {
  uint32_t log = 0;
  while (((uint64_t)1 << log) < by) log++;
  return by == 1 ? Divider{} : Divider{by, (uint32_t)((((uint64_t)1 << (31 + log)) + by - 1) / by), log - 1};
}

// A convolution's input [channels][height][width][batch] and its windows; no channels: a matrix instead.
// Column tap * channels + channel; token (output row * out_width + output column) * batch + image.
struct Window {
  int32_t channels, height, width, batch;  // batch in eights
  int32_t out_width, kernel_width, stride[2], padding[2], dilation[2];
  Divider by_batch, by_out_width, by_channels, by_kernel_width;  // made by the entry points
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
  Window window;
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
  Window window;
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
