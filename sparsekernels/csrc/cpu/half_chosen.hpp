// 2 of every 4 columns in bfloat16, two products at once. A processor that multiplies pairs wants the two
// kept columns of a row beside each other, token by token: for each four columns the six pairs that there
// are get interleaved once, for all the rows that read them; a kept pair is then one load.

constexpr int64_t FOURS = 16;  // groups of four columns whose pairs take three quarters of the L1 cache
constexpr int PAIRS = 6;
constexpr int FIRST[PAIRS] = {0, 0, 0, 1, 1, 2}, SECOND[PAIRS] = {1, 2, 3, 2, 3, 3};

// For the two positions in four bits of metadata: which pair it is; 64 where they do not rise.
static inline __m128i pair_table() {
  alignas(16) uint8_t found[16];
  for (uint8_t& e : found) e = 64;
  for (int i = 0; i < PAIRS; i++) found[FIRST[i] | SECOND[i] << 2] = (uint8_t)i;
  return _mm_load_si128((const __m128i*)found);
}

static bool rising(const uint8_t* meta, int64_t bytes) {
  const __m128i table = pair_table(), low = _mm_set1_epi8(15);
  __m128i bad = _mm_setzero_si128();
  for (int64_t i = 0; i < bytes; i += 16) {
    __m128i b = _mm_set1_epi8(0x44);
    if (i + 16 <= bytes) b = _mm_loadu_si128((const __m128i*)(meta + i));
    else memcpy(&b, meta + i, bytes - i);
    const __m128i high = _mm_and_si128(_mm_srli_epi16(b, 4), low);
    bad = _mm_or_si128(bad, _mm_or_si128(_mm_shuffle_epi8(table, _mm_and_si128(b, low)), _mm_shuffle_epi8(table, high)));
  }
  return !_mm_movemask_epi8(_mm_slli_epi16(bad, 1));
}

// What a row has in a slice of FOURS groups: its values, two by two, and where their pairs begin, in bytes
// for panels of 32 tokens. Records lie in the order of use: slice by slice, row by row.
struct alignas(32) Record {
  uint32_t both[FOURS];
  uint16_t at[FOURS];
};

static int64_t stream_of(const Chosen& c) {
  return (c.kept / 2 + FOURS - 1) / FOURS * (int64_t)(sizeof(Record) / 4);
}

static void chosen_decode(const Chosen& c, int64_t from, int64_t to, void* stream) {
  const __m128i table = pair_table(), low = _mm_set1_epi8(15);
  const __m128i base = _mm_set_epi8(90, 84, 78, 72, 66, 60, 54, 48, 42, 36, 30, 24, 18, 12, 6, 0);
  const int64_t bytes = c.kept / 4, rows = to - from;
  for (int64_t row = from; row < to; row++) {
    const uint8_t* meta = c.meta + row * bytes;
    const uint16_t* values = (const uint16_t*)c.values + row * c.kept;
    Record* to_row = (Record*)stream + (row - from);
    for (int64_t i = 0; i < bytes; i += FOURS / 2, to_row += rows) {
      const int64_t count = std::min(bytes - i, FOURS / 2);
      __m128i b = _mm_set1_epi8(0x44);
      memcpy(&b, meta + i, count);
      memcpy(to_row->both, values + i * 4, count * 8);
      const __m128i high = _mm_and_si128(_mm_srli_epi16(b, 4), low);
      const __m128i pairs = _mm_unpacklo_epi8(_mm_and_si128(b, low), high);
      const __m256i place = _mm256_cvtepu8_epi16(_mm_add_epi8(_mm_shuffle_epi8(table, pairs), base));
      _mm256_store_si256((__m256i*)to_row->at, _mm256_slli_epi16(place, 7));
    }
  }
}

// The pairs of `count` groups: [group][pair][BLOCKS * 2 vectors].
template <int BLOCKS>
SK_INLINE void interleave(const int32_t* list, int64_t column, int64_t count, const uint16_t* panel,
                          __m512i* to) {
  for (int64_t g = 0; g < count; g++, column += 4)
#pragma GCC unroll 2
    for (int b = 0; b < BLOCKS; b++) {
      __m512i x[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        const int64_t id = list ? list[column + k] : column + k;
        x[k] = _mm512_loadu_si512(panel + id * (BLOCKS * 32) + b * 32);
      }
#pragma GCC unroll 6
      for (int i = 0; i < PAIRS; i++) {
        __m512i* put = to + (g * PAIRS + i) * (BLOCKS * 2) + b * 2;
        put[0] = _mm512_unpacklo_epi16(x[FIRST[i]], x[SECOND[i]]);
        put[1] = _mm512_unpackhi_epi16(x[FIRST[i]], x[SECOND[i]]);
      }
    }
}

// MR rows of one slice with `count` groups.
template <int BLOCKS, int MR>
SK_INLINE void chosen_tile(const __m512i* pairs, const Record* const* w, int64_t count, bool add,
                           float* const* out) {
  __m512 acc[MR][BLOCKS * 2];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int v = 0; v < BLOCKS * 2; v++) acc[i][v] = add ? _mm512_loadu_ps(out[i] + v * 16) : _mm512_setzero_ps();
  for (int64_t j = 0; j < count; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const __m512i pair = _mm512_set1_epi32((int)w[i]->both[j]);
      const __m512i* x = (const __m512i*)((const char*)pairs + (int64_t)w[i]->at[j] * BLOCKS);
#pragma GCC unroll 4
      for (int v = 0; v < BLOCKS * 2; v++) {
        __m512 sum = acc[i][v];  // load and product as one instruction: GCC would part them, which on AMD's
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(pair), "m"(x[v]));  // Zen 4 takes two thirds longer
        acc[i][v] = sum;
      }
    }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int v = 0; v < BLOCKS * 2; v++) _mm512_storeu_ps(out[i] + v * 16, acc[i][v]);
}

template <int BLOCKS, int MR>
static void chosen_rows(const Chosen& c, int64_t from, int64_t to, const Record* stream, const uint16_t* panel,
                        float* out) {
  alignas(64) float waste[BLOCKS * 32];
  alignas(64) __m512i pairs[FOURS * PAIRS * BLOCKS * 2];
  const int64_t groups = c.kept / 2;
  for (int64_t begin = from, end; begin < to; begin = end) {  // rows that share a list
    end = c.cols ? std::min(to, (begin / c.share + 1) * c.share) : to;
    const int32_t* list = c.cols ? c.cols + begin / c.share * c.length : nullptr;
    for (int64_t g = 0; g < groups; g += FOURS) {
      const int64_t count = std::min(FOURS, groups - g);
      interleave<BLOCKS>(list, g * 4, count, panel, pairs);
      for (int64_t row = begin; row < end; row += MR) {
        const Record* w[MR];
        float* put[MR];
        for (int k = 0; k < MR; k++) {  // past the end: the last row once more, into the waste
          const int64_t r = std::min(row + k, end - 1);
          const int32_t id = row + k >= end ? -1 : c.rows ? c.rows[r] : (int32_t)r;
          w[k] = stream + g / FOURS * (to - from) + (r - from);
          put[k] = id < 0 ? waste : out + (int64_t)id * (BLOCKS * 32);
        }
        chosen_tile<BLOCKS, MR>(pairs, w, count, g > 0, put);
      }
    }
  }
}

static void chosen(const Chosen& c, int64_t from, int64_t to, const void* stream, const void* panel, int nv,
                   float* out) {
  if (nv == 2) chosen_rows<1, 8>(c, from, to, (const Record*)stream, (const uint16_t*)panel, out);
  if (nv == 4) chosen_rows<2, 4>(c, from, to, (const Record*)stream, (const uint16_t*)panel, out);
}

// Whether these kernels take a weight: lists that few rows share are not worth interleaving.
static bool takes(const Chosen& c, int64_t rows) {
  return c.n == 2 && c.m == 4 && c.bits == 2 && c.kept && c.kept % 4 == 0 && (!c.cols || c.share >= 32) &&
         rising(c.meta, rows * (c.kept / 4));
}
