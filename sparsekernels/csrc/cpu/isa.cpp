// Which instruction set this processor has, asked once.
#include "isa.hpp"

#include <string.h>

#include <initializer_list>

namespace sk {

static bool has(const Isa& isa) {
  if (!isa.name) return false;
#if defined(__x86_64__) && defined(__GNUC__)
  if (&isa == &isa_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (&isa == &isa_avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  return &isa == &isa_base;
}

const Isa& best_isa() {
  static const Isa& best = has(isa_avx512) ? isa_avx512 : has(isa_avx2) ? isa_avx2 : isa_base;
  return best;
}

const Isa* isa_named(const char* name) {
  for (const Isa* isa : {&isa_base, &isa_avx2, &isa_avx512})
    if (has(*isa) && !strcmp(isa->name, name)) return isa;
  return nullptr;
}

}  // namespace sk
