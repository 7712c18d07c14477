// Plain C entry points, without a torch header: nvcc builds them for the GPU, a C++ compiler with SK_HOST for
// the shim. They return 0, a CUDA error, -1 with a message (shim) or -2 (no such instance).
#include "gather.cuh"
#include "picked.cuh"

#ifdef SK_HOST
static thread_local std::string message;
static thread_local uint64_t products = 0;
extern "C" const char* sk_message() { return message.c_str(); }
extern "C" uint64_t sk_products() { return products; }
extern "C" int sk_quotient(int a, int by) { return sk::quotient(a, sk::divider((uint32_t)by)); }

template <class Kernel>
static int go(const typename Kernel::Args& args, dim3 grid, void*, unsigned seed) {
  try {
    products = shim::launch(grid, dim3(Kernel::THREADS), Kernel::SHARED, seed, [&] { Kernel::run(args); });
    return 0;
  } catch (const std::exception& error) {
    message = error.what();
    return -1;
  }
}
#else
template <class Kernel>
__global__ void __launch_bounds__(Kernel::THREADS) entry(const __grid_constant__ typename Kernel::Args args) {
  Kernel::run(args);
}

template <class Kernel>
static int go(const typename Kernel::Args& args, dim3 grid, void* stream, unsigned) {
  if (Kernel::SHARED > 48 << 10) {
    const cudaError_t error =
        cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::SHARED);
    if (error) return (int)error;
  }
  entry<Kernel><<<grid, Kernel::THREADS, Kernel::SHARED, (cudaStream_t)stream>>>(args);
  return (int)cudaGetLastError();
}
#endif

static int reduce(int bf16, const sk::Result& result, int splits, void* stream, unsigned seed) {
  const int64_t pairs = result.rows * result.ld / 2;
  const dim3 grid((unsigned)((pairs + 127) / 128));
  const sk::ReduceArgs args{result, splits};
  return bf16 ? go<sk::Reduce<true>>(args, grid, stream, seed) : go<sk::Reduce<false>>(args, grid, stream, seed);
}

template <template <bool, int, int> class Kernel, int V, int TOKENS, class Args>
static int run(int bf16, const Args& args, dim3 grid, int splits, void* stream, unsigned seed) {
  const int error = bf16 ? go<Kernel<true, V, TOKENS>>(args, grid, stream, seed)
                         : go<Kernel<false, V, TOKENS>>(args, grid, stream, seed);
  return error || splits == 1 ? error : reduce(bf16, args.result, splits, stream, seed);
}

template <bool BF, int V, int TOKENS>
using GatherMatrix = sk::Gather<BF, V, TOKENS, false>;
template <bool BF, int V, int TOKENS>
using GatherWindows = sk::Gather<BF, V, TOKENS, true>;
template <bool BF, int V, int TOKENS>
using PickedMatrix = sk::Picked<BF, V, TOKENS, false>;
template <bool BF, int V, int TOKENS>
using PickedWindows = sk::Picked<BF, V, TOKENS, true>;

// The arguments with the dividers of their windows.
template <class Args>
static Args divided(Args args) {
  sk::Window& w = args.window;
  if (w.channels > 0) {
    w.by_batch = sk::divider(w.batch), w.by_out_width = sk::divider(w.out_width);
    w.by_channels = sk::divider(w.channels), w.by_kernel_width = sk::divider(w.kernel_width);
  }
  return args;
}

#define SK_CASE(KERNEL, V, TOKENS)                                                         \
  if (v == V && tokens == TOKENS && windows == KERNEL<false, V, TOKENS>::FROM_WINDOWS) \
    return run<KERNEL, V, TOKENS>(bf16, divided(*args), grid, splits, stream, seed);

extern "C" int sk_gather(int bf16, int v, int tokens, const sk::GatherArgs* args, int groups, int splits,
                         void* stream, unsigned seed) {
  const dim3 grid((unsigned)((args->result.ld + tokens - 1) / tokens), groups, splits);
  const bool windows = args->window.channels > 0;
  SK_CASE(GatherMatrix, 64, 128)
  SK_CASE(GatherWindows, 64, 128)
#ifndef SK_FEW
  SK_CASE(GatherMatrix, 16, 128)
  SK_CASE(GatherMatrix, 32, 128)
  SK_CASE(GatherMatrix, 128, 128)
  SK_CASE(GatherMatrix, 32, 256)
  SK_CASE(GatherMatrix, 64, 256)
  SK_CASE(GatherMatrix, 128, 256)
  SK_CASE(GatherWindows, 16, 128)
  SK_CASE(GatherWindows, 32, 128)
  SK_CASE(GatherWindows, 128, 128)
#endif
  return -2;
}

extern "C" int sk_picked(int bf16, int v, int tokens, const sk::PickedArgs* args, int splits, void* stream,
                         unsigned seed) {
  const dim3 grid((unsigned)((args->result.ld + tokens - 1) / tokens), (unsigned)((args->height + v - 1) / v), splits);
  const bool windows = args->window.channels > 0;
  SK_CASE(PickedMatrix, 64, 128)
  SK_CASE(PickedWindows, 64, 128)
#ifndef SK_FEW
  SK_CASE(PickedMatrix, 16, 128)
  SK_CASE(PickedMatrix, 32, 128)
  SK_CASE(PickedMatrix, 128, 128)
  SK_CASE(PickedMatrix, 64, 256)
  SK_CASE(PickedWindows, 16, 128)
  SK_CASE(PickedWindows, 32, 128)
  SK_CASE(PickedWindows, 128, 128)
#endif
  return -2;
}
