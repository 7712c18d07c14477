// The operators, bound through torch's stable ABI: seconds to compile, and one binary for several releases.
// Everything that would read or write outside a tensor is refused here; kernels check nothing.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "linear.hpp"
#include "split.hpp"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Maybe = std::optional<Tensor>;

#define REFUSE_UNLESS(condition, ...) STD_TORCH_CHECK(condition, "sparsekernels: ", __VA_ARGS__)

const void* data(const Tensor& t, ScalarType type, const char* name) {
  REFUSE_UNLESS(t.scalar_type() == type && t.is_contiguous(), name, " has another type, or has gaps");
  return t.data_ptr();
}
template <class T>
const T* data(const Maybe& t, ScalarType type, const char* name) {
  return t.has_value() ? (const T*)data(*t, type, name) : nullptr;
}

bool is_bf16(const Tensor& x, const Tensor& values) {
  const ScalarType type = x.scalar_type();
  REFUSE_UNLESS(type == values.scalar_type(), "activations and values differ in type");
  REFUSE_UNLESS(type == ScalarType::Float || type == ScalarType::BFloat16,
                "the CPU kernels take float32 and bfloat16");
  REFUSE_UNLESS(x.is_contiguous() && values.is_contiguous(), "activations or values have gaps");
  return type == ScalarType::BFloat16;
}

void check_range(const int32_t* from, int64_t count, int64_t least, int64_t limit, const char* name) {
  int32_t low = least, high = least;
  for (int64_t i = 0; i < count; i++) low = std::min(low, from[i]), high = std::max(high, from[i]);
  REFUSE_UNLESS(low >= least && high < limit, name, " reach outside the ", limit, " there are");
}

struct Grouped {
  std::vector<int64_t> valptr;
  sk::Groups groups;
  int64_t count = 0, valid = 0;

  Grouped(const Tensor& values, const Tensor& colptr, const Tensor& cols, const Tensor& rowptr,
          const Tensor& rows, int64_t in, int64_t out) {
    count = colptr.numel() - 1;
    REFUSE_UNLESS(count >= 0 && rowptr.numel() == count + 1, "row and column pointers differ in length");
    groups.values = values.data_ptr();
    groups.colptr = (const int64_t*)data(colptr, ScalarType::Long, "colptr");
    groups.rowptr = (const int64_t*)data(rowptr, ScalarType::Long, "rowptr");
    groups.cols = (const int32_t*)data(cols, ScalarType::Int, "cols");
    groups.rows = (const int32_t*)data(rows, ScalarType::Int, "rows");
    REFUSE_UNLESS(!groups.colptr[0] && !groups.rowptr[0], "pointers begin with 0");
    valptr.assign(1, 0);
    for (int64_t g = 0; g < count; g++) {
      const int64_t c = groups.colptr[g + 1] - groups.colptr[g], r = groups.rowptr[g + 1] - groups.rowptr[g];
      REFUSE_UNLESS(c >= 0 && r >= 0 && r % 8 == 0, "group ", g, " has no multiple of 8 rows");
      valptr.push_back(valptr.back() + c * r);
    }
    REFUSE_UNLESS(groups.colptr[count] == cols.numel() && groups.rowptr[count] == rows.numel() &&
                      valptr[count] == values.numel(),
                  "pointers do not fit the columns, rows or values");
    check_range(groups.cols, cols.numel(), 0, std::max<int64_t>(in, 1), "columns");
    check_range(groups.rows, rows.numel(), -1, out, "rows");
    for (int64_t i = 0; i < rows.numel(); i++) valid += groups.rows[i] >= 0;
    groups.valptr = valptr.data();
  }
};

sk::Overlay overlay_of(const Maybe& ptr, const Maybe& cols, const Maybe& values, const Tensor& x, int64_t in,
                       int64_t out) {
  if (!ptr.has_value()) return {};
  REFUSE_UNLESS(cols.has_value() && values.has_value() && ptr->numel() == out + 1 &&
                    cols->numel() == values->numel(),
                "an overlay has pointers, columns and values");
  const sk::Overlay single = {data<int64_t>(ptr, ScalarType::Long, "overlay_ptr"),
                              data<int32_t>(cols, ScalarType::Int, "overlay_cols"),
                              data(*values, x.scalar_type(), "overlay")};
  bool rises = single.ptr[0] == 0 && single.ptr[out] == cols->numel();
  for (int64_t r = 0; r < out; r++) rises = rises && single.ptr[r] <= single.ptr[r + 1];
  REFUSE_UNLESS(rises, "overlay_ptr does not rise to the number of entries");
  check_range(single.cols, cols->numel(), 0, std::max<int64_t>(in, 1), "overlay columns");
  return single;
}

struct Picked {
  sk::Chosen weight;
  int64_t rows;

  Picked(const Tensor& values, const Tensor& meta, const Maybe& cols, const Maybe& ids, int64_t n, int64_t m,
         int64_t bits, int64_t share, int64_t in, int64_t out) {
    REFUSE_UNLESS(values.dim() == 2 && meta.dim() == 2 && meta.size(0) == values.size(0), "values and metadata are matrices");
    rows = values.size(0);
    const int64_t kept = values.size(1), length = n > 0 ? kept / n * m : 0;
    REFUSE_UNLESS(1 <= n && n <= m && m <= 32 && kept % n == 0, "no groups of ", m);
    REFUSE_UNLESS((bits == 2 || bits == 4 || bits == 8) && m <= 1 << bits, "metadata of ", bits, " bits");
    REFUSE_UNLESS(meta.size(1) == (kept * bits + 7) / 8, "metadata of another length");
    weight = {values.data_ptr(), (const uint8_t*)data(meta, ScalarType::Byte, "meta"),
              data<int32_t>(cols, ScalarType::Int, "cols"), data<int32_t>(ids, ScalarType::Int, "rows"),
              length, share, kept, (int)n, (int)m, (int)bits};
    if (weight.cols) {
      REFUSE_UNLESS(share > 0 && cols->numel() == (rows + share - 1) / share * length, "lists of another length");
      check_range(weight.cols, cols->numel(), 0, std::max<int64_t>(in, 1), "columns");
    } else {
      REFUSE_UNLESS(length <= in || !rows, "more columns than the input has");
    }
    if (weight.rows) {
      REFUSE_UNLESS(ids->numel() == rows, "row ids of another length");
      check_range(weight.rows, rows, -1, out, "rows");
    } else {
      REFUSE_UNLESS(rows <= out, "more rows than the output has");
    }
  }
};

bool all_rows(const int32_t* rows, int64_t count, int64_t out) {
  return count >= out && std::count_if(rows, rows + count, [](int32_t r) { return r >= 0; }) >= out;
}

const sk::Isa& isa_of(const std::string& name) {
  if (name.empty()) return sk::best_isa();
  const sk::Isa* isa = sk::isa_named(name.c_str());
  REFUSE_UNLESS(isa, "this processor or build lacks ", name);
  return *isa;
}

sk::Linear linear_io(const Tensor& x, Tensor& y, const Maybe& bias, bool bf16, bool covered) {
  return {x.data_ptr(), y.data_ptr(), data<float>(bias, ScalarType::Float, "bias"), x.size(0), x.size(1),
          y.size(1), bf16, covered};
}

Tensor gather_linear(const Tensor& x, const Tensor& values, const Tensor& colptr, const Tensor& cols,
                     const Tensor& rowptr, const Tensor& rows, const Maybe& overlay_ptr,
                     const Maybe& overlay_cols, const Maybe& overlay, int64_t out, const Maybe& bias,
                     std::string isa) {
  REFUSE_UNLESS(x.dim() == 2, "x[tokens][in] has two axes");
  REFUSE_UNLESS(!bias.has_value() || bias->numel() == out, "a bias has one number for each output");
  const bool bf16 = is_bf16(x, values);
  const Grouped w(values, colptr, cols, rowptr, rows, x.size(1), out);
  Tensor y = torch::stable::new_empty(x, {x.size(0), out});
  const sk::Overlay single = overlay_of(overlay_ptr, overlay_cols, overlay, x, x.size(1), out);
  if (y.numel())
    sk::linear(isa_of(isa), linear_io(x, y, bias, bf16, w.valid >= out), w.groups, w.count, single);
  return y;
}

Tensor chosen_linear(const Tensor& x, const Tensor& values, const Tensor& meta, const Maybe& cols,
                     const Maybe& rows, int64_t n, int64_t m, int64_t bits, int64_t share, int64_t out,
                     const Maybe& bias, std::string isa) {
  REFUSE_UNLESS(x.dim() == 2, "x[tokens][in] has two axes");
  REFUSE_UNLESS(!bias.has_value() || bias->numel() == out, "a bias has one number for each output");
  const bool bf16 = is_bf16(x, values);
  const Picked w(values, meta, cols, rows, n, m, bits, share, x.size(1), out);
  const bool covered = w.weight.rows ? all_rows(w.weight.rows, w.rows, out) : w.rows == out;
  Tensor y = torch::stable::new_empty(x, {x.size(0), out});
  if (y.numel()) sk::linear(isa_of(isa), linear_io(x, y, bias, bf16, covered), w.weight, w.rows);
  return y;
}

sk::Conv conv_io(const Tensor& x, Tensor& y, const Maybe& bias, const std::vector<int64_t>& window,
                 bool bf16, bool covered) {
  return {x.data_ptr(), y.data_ptr(), data<float>(bias, ScalarType::Float, "bias"), x.size(0), x.size(1),
          x.size(2), x.size(3), y.size(1), y.size(2), y.size(3), {window[0], window[1]},
          {window[2], window[3]}, {window[4], window[5]}, {window[6], window[7]}, bf16, covered};
}

// window: kernel, stride, padding and dilation, two numbers each
Tensor conv_out(const Tensor& x, int64_t out, const std::vector<int64_t>& window, const Maybe& bias) {
  REFUSE_UNLESS(x.dim() == 4, "x[batch][channels][height][width] has four axes");
  REFUSE_UNLESS(!bias.has_value() || bias->numel() == out, "a bias has one number for each output");
  REFUSE_UNLESS(window.size() == 8, "a window has eight numbers");
  int64_t size[2];
  for (int a = 0; a < 2; a++) {
    REFUSE_UNLESS(window[a] > 0 && window[2 + a] > 0 && window[4 + a] >= 0 && window[6 + a] > 0,
                  "kernel, stride and dilation are positive, padding is not negative");
    const int64_t room = x.size(2 + a) + 2 * window[4 + a] - window[6 + a] * (window[a] - 1) - 1;
    REFUSE_UNLESS(room >= 0, "the kernel is larger than the padded input");
    size[a] = room / window[2 + a] + 1;
  }
  return torch::stable::new_empty(x, {x.size(0), out, size[0], size[1]});
}

Tensor gather_conv2d(const Tensor& x, const Tensor& values, const Tensor& colptr, const Tensor& cols,
                     const Tensor& rowptr, const Tensor& rows, const Maybe& overlay_ptr,
                     const Maybe& overlay_cols, const Maybe& overlay, int64_t out, std::vector<int64_t> window,
                     const Maybe& bias, std::string isa) {
  const bool bf16 = is_bf16(x, values);
  Tensor y = conv_out(x, out, window, bias);
  const Grouped w(values, colptr, cols, rowptr, rows, x.size(1) * window[0] * window[1], out);
  const int64_t in = x.size(1) * window[0] * window[1];
  const sk::Overlay single = overlay_of(overlay_ptr, overlay_cols, overlay, x, in, out);
  const sk::Conv io = conv_io(x, y, bias, window, bf16, w.valid >= out);
  if (y.numel()) sk::conv2d(isa_of(isa), io, w.groups, w.count, single);
  return y;
}

Tensor chosen_conv2d(const Tensor& x, const Tensor& values, const Tensor& meta, const Maybe& cols,
                     const Maybe& rows, int64_t n, int64_t m, int64_t bits, int64_t share, int64_t out,
                     std::vector<int64_t> window, const Maybe& bias, std::string isa) {
  const bool bf16 = is_bf16(x, values);
  Tensor y = conv_out(x, out, window, bias);
  const Picked w(values, meta, cols, rows, n, m, bits, share, x.size(1) * window[0] * window[1], out);
  const bool covered = w.weight.rows ? all_rows(w.weight.rows, w.rows, out) : w.rows == out;
  if (y.numel()) sk::conv2d(isa_of(isa), conv_io(x, y, bias, window, bf16, covered), w.weight, w.rows);
  return y;
}

// The panels that threads would get: thread, first token, tokens, vectors of each.
std::vector<int64_t> split(int64_t tokens, int64_t threads, bool even, std::string isa) {
  REFUSE_UNLESS(tokens >= 0 && threads > 0, "no threads, or fewer than no tokens");
  const sk::Cut cut(isa_of(isa), tokens, even);
  std::vector<int64_t> found;
  if (!cut.enough(threads)) return found;  // all threads work on all panels
  for (int64_t thread = 0; thread < threads; thread++)
    for (const sk::Panel& p : cut.share(thread, threads))
      found.insert(found.end(), {thread, p.start, p.live, p.nv});
  return found;
}

std::string isa_name() { return sk::best_isa().name; }
bool has_isa(std::string name) { return sk::isa_named(name.c_str()) != nullptr; }

}  // namespace

#define SK_WEIGHT \
  "Tensor colptr, Tensor cols, Tensor rowptr, Tensor rows, Tensor? overlay_ptr, Tensor? overlay_cols, " \
  "Tensor? overlay, int out"
#define SK_CHOICE "Tensor meta, Tensor? cols, Tensor? rows, int n, int m, int bits, int share, int out"
STABLE_TORCH_LIBRARY(sparsekernels_cpu, m) {
  m.def("gather_linear(Tensor x, Tensor values, " SK_WEIGHT ", Tensor? bias, str isa='') -> Tensor");
  m.def("chosen_linear(Tensor x, Tensor values, " SK_CHOICE ", Tensor? bias, str isa='') -> Tensor");
  m.def("gather_conv2d(Tensor x, Tensor values, " SK_WEIGHT ", int[] window, Tensor? bias, str isa='') -> Tensor");
  m.def("chosen_conv2d(Tensor x, Tensor values, " SK_CHOICE ", int[] window, Tensor? bias, str isa='') -> Tensor");
  m.def("split(int tokens, int threads, bool even=False, str isa='') -> int[]");
  m.def("isa_name() -> str");
  m.def("has_isa(str name) -> bool");
}
STABLE_TORCH_LIBRARY_IMPL(sparsekernels_cpu, CPU, m) {
  m.impl("gather_linear", TORCH_BOX(&gather_linear));
  m.impl("chosen_linear", TORCH_BOX(&chosen_linear));
  m.impl("gather_conv2d", TORCH_BOX(&gather_conv2d));
  m.impl("chosen_conv2d", TORCH_BOX(&chosen_conv2d));
}
STABLE_TORCH_LIBRARY_IMPL(sparsekernels_cpu, CompositeExplicitAutograd, m) {
  m.impl("split", TORCH_BOX(&split));
  m.impl("isa_name", TORCH_BOX(&isa_name));
  m.impl("has_isa", TORCH_BOX(&has_isa));
}
