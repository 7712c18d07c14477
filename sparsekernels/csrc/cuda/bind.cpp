// The CUDA entry points as torch operators, through the stable ABI. With SK_HOST the same file binds the
// shim's build for CPU tensors, in a namespace of its own that only tests load.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#ifndef SK_HOST
#include <torch/csrc/stable/accelerator.h>
#endif

#include <optional>
#include <vector>

#include "arguments.hpp"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Maybe = std::optional<Tensor>;

template <class T>
T* data(const Tensor& t) {
  STD_TORCH_CHECK(t.is_contiguous(), "sparsekernels: an operand has gaps");
  return (T*)t.data_ptr();
}
template <class T>
T* data(const Maybe& t) {
  return t.has_value() ? data<T>(*t) : nullptr;
}

// `window`: kernel, stride, padding and dilation, two numbers each, of a convolution; empty: a matrix.
struct Input {
  sk::Window window = {};
  int64_t tokens, size[2] = {1, 1};  // of the output
  const std::vector<int64_t>& of;

  Input(const Tensor& xt, const std::vector<int64_t>& of) : tokens(xt.size(1)), of(of) {
    if (of.empty()) return;
    STD_TORCH_CHECK(xt.dim() == 4 && of.size() == 8, "sparsekernels: activations are [channels][height][width][batch]");
    for (int a = 0; a < 2; a++) {
      const int64_t room = xt.size(1 + a) + 2 * of[4 + a] - of[6 + a] * (of[a] - 1) - 1;
      STD_TORCH_CHECK(of[a] > 0 && of[2 + a] > 0 && of[4 + a] >= 0 && of[6 + a] > 0 && room >= 0,
                      "sparsekernels: the kernel is larger than the padded input, or no window");
      size[a] = room / of[2 + a] + 1;
    }
    tokens = size[0] * size[1] * xt.size(3);
    const int64_t columns = xt.size(0) * of[0] * of[1], limit = ((int64_t)1 << 31) - 1;
    STD_TORCH_CHECK(tokens <= limit && columns <= limit && xt.size(1) + 2 * of[4] <= limit &&
                        xt.size(2) + 2 * of[5] <= limit,
                    "sparsekernels: a convolution of more than 2^31 columns or outputs");
    fill(xt);
  }
  void fill(const Tensor& xt) {
    window.channels = (int32_t)xt.size(0), window.height = (int32_t)xt.size(1);
    window.width = (int32_t)xt.size(2), window.batch = (int32_t)xt.size(3);
    window.out_width = (int32_t)size[1], window.kernel_width = (int32_t)of[1];
    for (int a = 0; a < 2; a++) {
      window.stride[a] = (int32_t)of[2 + a], window.padding[a] = (int32_t)of[4 + a];
      window.dilation[a] = (int32_t)of[6 + a];
    }
  }
  std::vector<int64_t> shape(int64_t out) const {
    if (of.empty()) return {out, tokens};
    return {out, size[0], size[1], window.batch};
  }
};

bool is_bf16(const Tensor& xt, const Tensor& values) {
  const ScalarType type = xt.scalar_type();
  STD_TORCH_CHECK(type == values.scalar_type() && (type == ScalarType::Half || type == ScalarType::BFloat16),
                  "sparsekernels: the CUDA kernels take float16 and bfloat16");
  STD_TORCH_CHECK((xt.dim() == 2 || xt.dim() == 4) && xt.size(xt.dim() - 1) % 8 == 0 && (uintptr_t)xt.data_ptr() % 16 == 0 &&
                      (uintptr_t)values.data_ptr() % 16 == 0,
                  "sparsekernels: activations end in tokens (or images) in eights, on 16 bytes");
  return type == ScalarType::BFloat16;
}

void* stream_of(const Tensor& t) {
#ifdef SK_HOST
  return nullptr;
#else
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(t.get_device_index(), &stream));
  return stream;
#endif
}

void check(int code) {
#ifdef SK_HOST
  STD_TORCH_CHECK(code != -1, "sparsekernels: ", sk_message());
#endif
  STD_TORCH_CHECK(code != -2, "sparsekernels: there is no kernel of this size");
  STD_TORCH_CHECK(code == 0, "sparsekernels: the launch failed with CUDA error ", code);
}

struct Output {
  Tensor y;
  Maybe part;
  sk::Result result;

  Output(const Tensor& xt, const Input& in, int64_t rows, const Maybe& bias, const Maybe& c, double alpha,
         double beta, int64_t splits)
      : y(torch::stable::new_empty(xt, in.shape(rows))) {
    if (splits > 1) part = torch::stable::new_empty(xt, {splits, rows, in.tokens}, ScalarType::Float);
    result = {data<uint16_t>(y), data<const uint16_t>(c), data<const float>(bias), data<float>(part), rows,
              in.tokens, (float)alpha, (float)beta};
  }
};

Tensor gather(const Tensor& xt, const Tensor& values, const Tensor& colptr, const Tensor& cols,
              const Tensor& rowptr, const Tensor& rows, const Tensor& valptr, const Maybe& overlay_ptr,
              const Maybe& overlay_cols, const Maybe& overlay, int64_t out, const Maybe& bias, const Maybe& c,
              double alpha, double beta, std::vector<int64_t> window, int64_t v, int64_t tokens, int64_t splits,
              int64_t seed) {
#ifndef SK_HOST
  torch::stable::accelerator::DeviceGuard guard(xt.get_device_index());
#endif
  const bool bf16 = is_bf16(xt, values);
  const Input in(xt, window);
  Output to(xt, in, out, bias, c, alpha, beta, splits);
  const sk::GatherArgs args{data<uint16_t>(values),      data<int64_t>(colptr),
                            data<int64_t>(rowptr),       data<int64_t>(valptr),
                            data<int32_t>(cols),         data<int32_t>(rows),
                            data<uint16_t>(xt),          xt.size(1),
                            data<int64_t>(overlay_ptr),  data<int32_t>(overlay_cols),
                            data<uint16_t>(overlay),     to.result,
                            in.window};
  const int groups = (int)colptr.numel() - 1;
  if (groups && to.y.numel())
    check(sk_gather(bf16, (int)v, (int)tokens, &args, groups, (int)splits, stream_of(xt), (unsigned)seed));
  return to.y;
}

Tensor picked(const Tensor& xt, const Tensor& values, const Tensor& words, const Maybe& cols, const Maybe& rows,
              int64_t share, int64_t out, const Maybe& bias, const Maybe& c, double alpha, double beta,
              std::vector<int64_t> window, int64_t v, int64_t tokens, int64_t splits, int64_t seed) {
#ifndef SK_HOST
  torch::stable::accelerator::DeviceGuard guard(xt.get_device_index());
#endif
  const bool bf16 = is_bf16(xt, values);
  const int64_t height = values.size(0), length = values.size(1) * 2;
  STD_TORCH_CHECK(height % 16 == 0 && length % 32 == 0 && words.numel() == height * length / 32 &&
                      (!cols.has_value() || share % v == 0),
                  "sparsekernels: rows in sixteens, columns in 32, lists for whole tiles");
  const Input in(xt, window);
  Output to(xt, in, out, bias, c, alpha, beta, splits);
  const sk::PickedArgs args{data<uint16_t>(values), data<uint32_t>(words), data<int32_t>(cols),
                            data<int32_t>(rows),    height,                length,
                            share,                  data<uint16_t>(xt),    xt.size(1),
                            to.result,              in.window};
  if (height && to.y.numel())
    check(sk_picked(bf16, (int)v, (int)tokens, &args, (int)splits, stream_of(xt), (unsigned)seed));
  return to.y;
}

}  // namespace

#define SK_TAIL                                                                                      \
  "int out, Tensor? bias, Tensor? c, float alpha, float beta, int[] window, int v, int tokens, int splits, " \
  "int seed=0) -> Tensor"
#define SK_GATHER                                                                                          \
  "gather(Tensor xt, Tensor values, Tensor colptr, Tensor cols, Tensor rowptr, Tensor rows, Tensor valptr, " \
  "Tensor? overlay_ptr, Tensor? overlay_cols, Tensor? overlay, " SK_TAIL
#define SK_PICKED \
  "picked(Tensor xt, Tensor values, Tensor words, Tensor? cols, Tensor? rows, int share, " SK_TAIL

#ifdef SK_HOST
STABLE_TORCH_LIBRARY(sparsekernels_host, m) {
  m.def(SK_GATHER);
  m.def(SK_PICKED);
}
STABLE_TORCH_LIBRARY_IMPL(sparsekernels_host, CPU, m) {
#else
STABLE_TORCH_LIBRARY(sparsekernels_cuda, m) {
  m.def(SK_GATHER);
  m.def(SK_PICKED);
}
STABLE_TORCH_LIBRARY_IMPL(sparsekernels_cuda, CUDA, m) {
#endif
  m.impl("gather", TORCH_BOX(&gather));
  m.impl("picked", TORCH_BOX(&picked));
}
