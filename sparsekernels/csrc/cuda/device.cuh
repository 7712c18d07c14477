// The only file that knows whether kernels run on a GPU or under the shim: each wrapper is either the PTX
// instruction or a call into the shim. Kernels contain neither.
#pragma once
#include <stdint.h>

#ifdef SK_HOST
#include "../shim/block.hpp"
#define SK_DEVICE inline __attribute__((always_inline))
#define SK_SHARED(name) char* name = shim::block()->shared.begin
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define SK_DEVICE __device__ __forceinline__
#define SK_SHARED(name) extern __shared__ __align__(1024) char name[]
#endif

namespace sk {

#ifdef SK_HOST

SK_DEVICE int thread_index() { return shim::block()->current->index; }
SK_DEVICE dim3 block_index() { return shim::block()->index; }
SK_DEVICE dim3 grid_size() { return shim::block()->grid; }
SK_DEVICE int block_size() { return (int)shim::block()->size.x; }
SK_DEVICE void sync_threads() { shim::barrier(); }
template <bool BF>
SK_DEVICE uint16_t narrow(float v) { return shim::narrow<BF>(v); }
template <bool BF>
SK_DEVICE float widen(uint16_t v) { return shim::widen<BF>(v); }

// 16 bytes to shared memory, or zeros where not `valid`.
SK_DEVICE void copy16(void* to, const void* from, bool valid) { shim::copy_async(to, valid ? from : nullptr); }
SK_DEVICE void copy_commit() { shim::commit(); }
template <int PENDING>
SK_DEVICE void copy_wait() { shim::wait(PENDING); }

SK_DEVICE void load_matrices(uint32_t (&r)[4], const void* row, shim::Op op) {
  shim::block()->current->request.address = row;
  const shim::Request& got = shim::together(op);
  for (int i = 0; i < 4; i++) r[i] = got.words[i];
}
SK_DEVICE void ldmatrix(uint32_t (&r)[4], const void* row) { load_matrices(r, row, shim::Op::ldmatrix); }
SK_DEVICE void ldmatrix_trans(uint32_t (&r)[4], const void* row) {
  load_matrices(r, row, shim::Op::ldmatrix_trans);
}
template <bool BF>
SK_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  shim::Request& mine = shim::block()->current->request;
  for (int i = 0; i < 4; i++) mine.a[i] = a[i], mine.c[i] = d[i];
  mine.b[0] = b0, mine.b[1] = b1, mine.number = BF;
  shim::together(shim::Op::mma);
  for (int i = 0; i < 4; i++) d[i] = mine.d[i];
}
template <bool BF>
SK_DEVICE void mma_sp(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
  shim::Request& mine = shim::block()->current->request;
  for (int i = 0; i < 4; i++) mine.a[i] = a[i], mine.b[i] = b[i], mine.c[i] = d[i];
  mine.e = e, mine.number = BF;
  shim::together(shim::Op::mma_sp);
  for (int i = 0; i < 4; i++) d[i] = mine.d[i];
}

#else

SK_DEVICE int thread_index() { return threadIdx.x; }
SK_DEVICE dim3 block_index() { return blockIdx; }
SK_DEVICE dim3 grid_size() { return gridDim; }
SK_DEVICE int block_size() { return blockDim.x; }
SK_DEVICE void sync_threads() { __syncthreads(); }
template <bool BF>
SK_DEVICE uint16_t narrow(float v) {
  return BF ? __bfloat16_as_ushort(__float2bfloat16_rn(v)) : __half_as_ushort(__float2half_rn(v));
}
template <bool BF>
SK_DEVICE float widen(uint16_t v) {
  return BF ? __bfloat162float(__ushort_as_bfloat16(v)) : __half2float(__ushort_as_half(v));
}
SK_DEVICE uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

SK_DEVICE void copy16(void* to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
SK_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
SK_DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

#define SK_LDMATRIX(NAME, KIND)                                                                             \
  SK_DEVICE void NAME(uint32_t (&r)[4], const void* row) {                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" KIND ".shared.b16 {%0, %1, %2, %3}, [%4];"                 \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                           \
                 : "r"(shared_address(row))                                                                 \
                 : "memory");                                                                               \
  }
SK_LDMATRIX(ldmatrix, "")
SK_LDMATRIX(ldmatrix_trans, ".trans")

#define SK_MMA(TYPE)                                                                                        \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                       \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                       \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <bool BF>
SK_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (BF) SK_MMA("bf16");
  else SK_MMA("f16");
}
// Ordered metadata: positions within four columns rise, which our packing guarantees.
#define SK_MMA_SP(TYPE)                                                                                     \
  asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." TYPE "." TYPE                  \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"   \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),    \
                 "r"(e))
template <bool BF>
SK_DEVICE void mma_sp(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
  if constexpr (BF) SK_MMA_SP("bf16");
  else SK_MMA_SP("f16");
}

#endif

// Where 16-byte chunk `chunk` of row `row` lies in a tile of rows of CHUNKS chunks: eight rows that ldmatrix
// reads at once fall into eight different groups of banks.
template <int CHUNKS>
SK_DEVICE int swizzled(int row, int chunk) {
  const int turn = CHUNKS >= 8 ? row & 7 : CHUNKS == 4 ? row >> 1 & 3 : row >> 2 & 1;
  return (row * CHUNKS + (chunk ^ turn)) * 8;
}

}  // namespace sk
