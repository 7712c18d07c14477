// Any processor: vectors of four, which the compiler maps to what the target has.
#include <stdint.h>
#include "isa.hpp"
#define SK_HAVE 1

namespace sk {
#ifdef SK_HAVE
#define SK_W 4        // floats in a vector
#define SK_NV 3       // vectors of a full panel
#define SK_MR2 4      // rows of a tile two and three vectors wide: what fits into the registers
#define SK_MR3 4
#define SK_CR1 4      // the same where every row has columns of its own
#define SK_CR3 2
#define SK_COLUMNS 256 // columns of a full panel that take half of the L1 cache
#define SK_TB 3       // tokens of a decoding tile
namespace base {
#include "simd.hpp"

#include "chosen.hpp"
#include "gather.hpp"
#include "overlay.hpp"
#include "panel.hpp"
}  // namespace base
const Isa isa_base = {"base",           SK_W,          SK_NV,              base::pack,
                       base::unpack,   base::gather, base::gather_few,  base::overlay,
                       base::overlay_few, base::chosen_decode, base::chosen, base::chosen_few};
#else
const Isa isa_base = {};
#endif
}  // namespace sk
