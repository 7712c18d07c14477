// AVX-512: twice the registers of AVX2, which larger tiles need.
#include <stdint.h>
#include "isa.hpp"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SK_HAVE 1
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512")
#endif

namespace sk {
#ifdef SK_HAVE
#define SK_W 16        // floats in a vector
#define SK_NV 4       // vectors of a full panel
#define SK_MR2 8      // rows of a tile two and three vectors wide: what fits into the registers
#define SK_MR3 8
#define SK_CR1 8      // the same where every row has columns of its own
#define SK_CR3 2
#define SK_COLUMNS 64 // columns of a full panel that take half of the L1 cache
#define SK_TB 4       // tokens of a decoding tile
namespace avx512 {
#include "simd.hpp"

#include "chosen.hpp"
#include "gather.hpp"
#include "overlay.hpp"
#include "panel.hpp"
}  // namespace avx512
const Isa isa_avx512 = {"avx512",           SK_W,          SK_NV,              avx512::pack,
                       avx512::unpack,   avx512::gather, avx512::gather_few,  avx512::overlay,
                       avx512::overlay_few, avx512::chosen_decode, avx512::chosen, avx512::chosen_few};
#else
const Isa isa_avx512 = {};
#endif
}  // namespace sk
