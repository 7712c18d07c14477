// y[tokens][rows] = x[tokens][columns] W' + bias, on the CPU.
#pragma once
#include "isa.hpp"

namespace sk {

struct Linear {
  const void* x;
  void* y;
  const float* bias;  // or null
  int64_t tokens, columns, rows;
  int bf16;
  bool covered;  // every row of the output belongs to some row of the weight
};

void linear(const Isa& isa, const Linear& io, const Groups& groups, int64_t count, const Overlay& single);
void linear(const Isa& isa, const Linear& io, const Chosen& weight, int64_t rows);

struct Conv {
  const void* x;  // [batch][channels][height][width]
  void* y;        // [batch][rows][out_height][out_width]
  const float* bias;
  int64_t batch, channels, height, width, rows, out_height, out_width;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int bf16;
  bool covered;
};

// Column c of the weight is input channel c % channels under tap c / channels.
void conv2d(const Isa& isa, const Conv& io, const Groups& groups, int64_t count, const Overlay& single);
void conv2d(const Isa& isa, const Conv& io, const Chosen& weight, int64_t rows);

}  // namespace sk
