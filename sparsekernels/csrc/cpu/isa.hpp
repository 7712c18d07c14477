// What the drivers and the instruction sets agree on. Activations are held in panels: `width` tokens
// (or output positions of a convolution) side by side, one row of them for each input column, so that
// reading a kept column is reading a contiguous run. Products have the same shape, one row for each
// output row, and are turned into the caller's layout at the end.
#pragma once
#include <stdint.h>

namespace sk {

// Rows of weights that share kept columns: group g has rows rowptr[g] .. rowptr[g+1] (a multiple of 8;
// row id -1: padding) and columns colptr[g] .. colptr[g+1]; its values begin at valptr[g], column first.
struct Groups {
  const void* values;
  const int64_t *colptr, *rowptr, *valptr;
  const int32_t *cols, *rows;
};

// Single entries on top of groups, as CSR over the rows of the output; ptr null: none.
struct Overlay {
  const int64_t* ptr;
  const int32_t* cols;
  const void* values;
};

// Rows that keep n of every m of their list of columns (cols: one list of `length` for each `share`
// rows; null: the columns themselves). Positions within a group lie in `meta`, `bits` each, lowest first,
// every row on whole bytes.
struct Chosen {
  const void* values;
  const uint8_t* meta;
  const int32_t *cols, *rows;
  int64_t length, share, kept;  // columns in a list; rows that share one; values of a row
  int n, m, bits;
};

struct Isa {
  const char* name;
  int lanes;       // floats in a vector
  int most;        // vectors in a full panel
  // x[tokens][ld] -> panel[columns from..to][nv * lanes]
  void (*pack)(int bf16, const void* x, int64_t ld, int64_t from, int64_t to, int tokens, int nv,
               float* panel);
  // out[rows from..to][nv * lanes] -> y[tokens][ld], with the bias added where there is one
  void (*unpack)(int bf16, const float* out, int64_t from, int64_t to, int tokens, int nv,
                 const float* bias, void* y, int64_t ld);
  // groups from..to of one panel; out rows of them are written whole
  void (*gather)(int bf16, const Groups& groups, int64_t from, int64_t to, const float* panel, int nv,
                 float* out);
  // the same for few tokens, straight from x[tokens][ldx] to y[tokens][ldy]
  void (*gather_few)(int bf16, const Groups& groups, int64_t from, int64_t to, const void* x,
                     int64_t ldx, int tokens, const float* bias, void* y, int64_t ldy);
  // adds the single entries of output rows from..to of one panel
  void (*overlay)(int bf16, const Overlay& single, int64_t from, int64_t to, const float* panel, int nv,
                  float* out);
  void (*overlay_few)(int bf16, const Overlay& single, int64_t rows, const void* x, int64_t ldx,
                      int tokens, void* y, int64_t ldy);
  // rows from..to into a stream of 2 * kept floats for each row
  void (*chosen_decode)(int bf16, const Chosen& weight, int64_t from, int64_t to, float* stream);
  // these rows of a stream over one panel
  void (*chosen)(const Chosen& weight, int64_t from, int64_t to, const float* stream, const float* panel,
                 int nv, float* out);
  // the same of 2:4 for few tokens; needs tokens * length floats
  void (*chosen_few)(int bf16, const Chosen& weight, int64_t from, int64_t to, const void* x, int64_t ldx,
                     int tokens, const float* bias, void* y, int64_t ldy, void* scratch);
};

extern const Isa isa_base, isa_avx2, isa_avx512;

// bfloat16 kept as it is: panels of an even number of vectors, twice as many tokens in the same bytes.
struct Half {
  void (*pack)(const void* x, int64_t ld, int64_t from, int64_t to, int tokens, int nv, void* panel);
  void (*gather)(const Groups& groups, int64_t from, int64_t to, const void* panel, int nv, float* out);
  bool (*takes)(const Chosen& weight, int64_t rows);
  // rows from..to into a stream of so many floats for each row, and these over one panel
  int64_t (*stream)(const Chosen& weight);
  void (*chosen_decode)(const Chosen& weight, int64_t from, int64_t to, void* stream);
  void (*chosen)(const Chosen& weight, int64_t from, int64_t to, const void* stream, const void* panel, int nv,
                 float* out);
};
const Half* half_of(const Isa& isa);  // null where the processor does not multiply bfloat16

const Isa& best_isa();                       // the widest that this processor has
const Isa* isa_named(const char* name);      // for tests; null where the processor lacks it

}  // namespace sk
