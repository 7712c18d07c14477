// AVX2 and FMA. The pragma follows every include that could bring inline functions for other targets.
#include <stdint.h>
#include "isa.hpp"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SK_HAVE 1
#pragma GCC target("avx2,fma")
#endif

namespace sk {
#ifdef SK_HAVE
#define SK_W 8        // floats in a vector
#define SK_NV 3       // vectors of a full panel
#define SK_MR2 4      // rows of a tile two and three vectors wide: what fits into the registers
#define SK_MR3 4
#define SK_CR1 8      // the same where every row has columns of its own
#define SK_CR3 2
#define SK_COLUMNS 128 // columns of a full panel that take half of the L1 cache
#define SK_TB 3       // tokens of a decoding tile
namespace avx2 {
#include "simd.hpp"

#include "chosen.hpp"
#include "gather.hpp"
#include "overlay.hpp"
#include "panel.hpp"
}  // namespace avx2
const Isa isa_avx2 = {"avx2",           SK_W,          SK_NV,              avx2::pack,
                       avx2::unpack,   avx2::gather, avx2::gather_few,  avx2::overlay,
                       avx2::overlay_few, avx2::chosen_decode, avx2::chosen, avx2::chosen_few};
#else
const Isa isa_avx2 = {};
#endif
}  // namespace sk
