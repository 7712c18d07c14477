// Where activations come from: eight tokens of a column, as an address in global memory, null for zeros.
//
// Of a matrix [columns][ldx] that is a multiplication. Of a convolution nothing is unfolded: a column is a
// (tap, channel), a token an (output row, output column, image), and images lie innermost, so that eight
// tokens of one output position are 16 bytes side by side for whatever tap, stride, padding and dilation.
#pragma once
#include "arguments.hpp"
#include "device.cuh"

namespace sk {

SK_DEVICE int32_t quotient(int32_t a, const Divider& d) {
  return d.by == 1 ? a : (int32_t)((uint64_t)(uint32_t)a * d.factor >> 32 >> d.shift);
}

template <bool WINDOWS>
struct Source;

template <>
struct Source<false> {
  int64_t token;
  bool inside;

  template <class Args>
  SK_DEVICE Source(const Args& p, int64_t token) : token(token), inside(token < p.ldx) {}
  template <class Args>
  SK_DEVICE const uint16_t* at(const Args& p, int32_t id) const {
    return id >= 0 && inside ? p.xt + id * p.ldx + token : nullptr;
  }
};

template <>
struct Source<true> {
  int32_t y, x, image;  // the window's first row and column, which may lie in the padding
  bool inside;

  template <class Args>
  SK_DEVICE Source(const Args& p, int64_t token) : inside(token < p.result.ld) {
    const Window& w = p.window;
    const int32_t place = quotient((int32_t)token, w.by_batch), row = quotient(place, w.by_out_width);
    image = (int32_t)token - place * w.batch;
    y = row * w.stride[0] - w.padding[0];
    x = (place - row * w.out_width) * w.stride[1] - w.padding[1];
  }
  template <class Args>
  SK_DEVICE const uint16_t* at(const Args& p, int32_t id) const {
    const Window& w = p.window;
    if (id < 0 || !inside) return nullptr;
    const int32_t tap = quotient(id, w.by_channels), channel = id - tap * w.channels;
    const int32_t down = quotient(tap, w.by_kernel_width), right = tap - down * w.kernel_width;
    const int32_t row = y + down * w.dilation[0], col = x + right * w.dilation[1];
    if (row < 0 || row >= w.height || col < 0 || col >= w.width) return nullptr;
    return p.xt + (((int64_t)channel * w.height + row) * w.width + col) * w.batch + image;
  }
};

}  // namespace sk
