// Convolutions as the same product over panels of output positions: a kept (channel, tap) column is a run
// of input positions, copied in as few contiguous pieces as the layout allows.
#include <string.h>

#include "linear.hpp"
#include "sweep.hpp"

namespace sk {

namespace {

struct Run {  // `count` positions of a panel from `to` on; source < 0: padding
  int to, count;
  int64_t source;
};

inline float widen(float v) { return v; }
inline float widen(uint16_t v) {
  const uint32_t u = (uint32_t)v << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
inline void narrow(float v, float* p) { *p = v; }
inline void narrow(float v, uint16_t* p) {
  uint32_t u;
  memcpy(&u, &v, 4);
  *p = v != v ? 0x7fc0 : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

template <class X>
void copy(const X* from, int count, int64_t step, float* to) {
  for (int i = 0; i < count; i++) to[i] = widen(from[i * step]);
}
// Whole sixteens: what lies behind the run is written as well, and overwritten by the runs that follow.
constexpr int WIDE = 16;
inline int whole(int count) { return (count + WIDE - 1) / WIDE * WIDE; }
inline void copy_wide(const float* from, int count, float* to) {
  for (int i = 0; i < count; i += WIDE) memcpy(to + i, from + i, WIDE * 4);
}
inline void copy_wide(const uint16_t* from, int count, float* to) {
  for (int i = 0; i < whole(count); i++) to[i] = widen(from[i]);
}

// The runs of one tap in a panel. Sources are places in the planes of channel 0.
void runs_of(const Conv& io, int64_t tap, const Panel& panel, std::vector<Run>& runs) {
  const int64_t plane = io.out_height * io.out_width;
  const int64_t dy = tap / io.kernel[1] * io.dilation[0] - io.padding[0];
  const int64_t dx = tap % io.kernel[1] * io.dilation[1] - io.padding[1];
  const bool joined = io.stride[1] == 1 && io.stride[0] == 1 && dx == 0 && io.out_width == io.width;
  runs.clear();
  auto add = [&](int64_t to, int64_t count, int64_t source) {
    if (count <= 0) return;
    if (joined && source >= 0 && !runs.empty() && runs.back().source >= 0 &&
        runs.back().source + runs.back().count == source)
      runs.back().count += (int)count;
    else
      runs.push_back({(int)to, (int)count, source});
  };
  for (int64_t at = 0; at < panel.live;) {
    const int64_t p = panel.start + at, image = p / plane, oy = p % plane / io.out_width, ox = p % io.out_width;
    const int64_t count = std::min(io.out_width - ox, panel.live - at), y = oy * io.stride[0] + dy;
    // outputs ox .. ox+count whose input lies inside the row
    const int64_t s = io.stride[1];
    int64_t first = std::max(ox, dx < 0 ? (-dx + s - 1) / s : 0), stop = io.width - dx;
    stop = std::min(ox + count, stop <= 0 ? 0 : (stop + s - 1) / s);
    if (y < 0 || y >= io.height || first >= stop) {
      add(at, count, -1);
    } else {
      add(at, first - ox, -1);
      add(at + first - ox, stop - first,
          (image * io.channels * io.height + y) * io.width + first * s + dx);
      add(at + stop - ox, ox + count - stop, -1);
    }
    at += count;
  }
}

template <class X>
void put_exactly(const std::vector<Run>& runs, const X* source, int64_t step, float* row) {
  for (const Run& run : runs)
    if (run.source < 0) std::fill_n(row + run.to, run.count, 0.f);
    else copy(source + run.source, run.count, step, row + run.to);
}
template <class X>
void put_widely(const std::vector<Run>& runs, const X* source, float* row) {
  for (const Run& run : runs)
    if (run.source < 0) std::fill_n(row + run.to, whole(run.count), 0.f);
    else copy_wide(source + run.source, run.count, row + run.to);
}

template <class X>
void pack_conv(const Conv& io, const Panel& panel, int64_t from, int64_t to, int width, float* packed) {
  std::vector<Run> runs;
  const X* x = (const X*)io.x;
  const int64_t plane = io.height * io.width, all = io.batch * io.channels * plane;
  int64_t reach = 0;  // how far the runs read when they are read widely
  for (int64_t c = from; c < to; c++) {
    if (c == from || c % io.channels == 0) {
      runs_of(io, c / io.channels, panel, runs);
      reach = 0;
      for (const Run& run : runs) reach = std::max(reach, run.source + whole(run.count));
    }
    float* row = packed + c * width;
    const int64_t channel = c % io.channels * plane;
    // the last row has nothing behind it that will be written later
    if (io.stride[1] == 1 && c + 1 < to && channel + reach <= all) put_widely(runs, x + channel, row);
    else put_exactly(runs, x + channel, io.stride[1], row);
    std::fill(row + panel.live, row + width, 0.f);
  }
}

template <class Y>
void unpack_conv(const Conv& io, const Panel& panel, const float* out, int64_t from, int64_t to, int width) {
  const int64_t plane = io.out_height * io.out_width;
  for (int64_t row = from; row < to; row++) {
    const float bias = io.bias ? io.bias[row] : 0.f;
    const float* source = out + row * width;
    for (int64_t at = 0; at < panel.live;) {
      const int64_t p = panel.start + at, image = p / plane, place = p % plane;
      const int64_t count = std::min(plane - place, panel.live - at);
      Y* y = (Y*)io.y + (image * io.rows + row) * plane + place;
      for (int64_t i = 0; i < count; i++) narrow(source[at + i] + bias, y + i);
      at += count;
    }
  }
}

int64_t positions(const Conv& io) { return io.batch * io.out_height * io.out_width; }

void conv_by(const Isa& isa, const Conv& io, const Cut& cut, int threads, Product& product,
             const Overlay& single) {
  const int64_t columns = io.channels * io.kernel[0] * io.kernel[1];
  auto pack = [&](const Panel& p, int64_t from, int64_t to, float* packed) {
    io.bf16 ? pack_conv<uint16_t>(io, p, from, to, p.nv * isa.lanes, packed)
            : pack_conv<float>(io, p, from, to, p.nv * isa.lanes, packed);
  };
  auto unpack = [&](const Panel& p, const float* out, int64_t from, int64_t to) {
    io.bf16 ? unpack_conv<uint16_t>(io, p, out, from, to, p.nv * isa.lanes)
            : unpack_conv<float>(io, p, out, from, to, p.nv * isa.lanes);
  };
  sweep(isa, cut, columns, io.rows, io.covered, io.bf16, threads, product, single, pack, unpack);
}

}  // namespace

void conv2d(const Isa& isa, const Conv& io, const Groups& groups, int64_t count, const Overlay& single) {
  const Cut cut(isa, positions(io), false);
  GatherProduct product(isa, groups, io.bf16, count, cut);
  conv_by(isa, io, cut, product.threads, product, single);
}

void conv2d(const Isa& isa, const Conv& io, const Chosen& weight, int64_t rows) {
  const Cut cut(isa, positions(io), false);
  ChosenProduct product(isa, weight, nullptr, io.bf16, rows, cut);
  conv_by(isa, io, cut, product.threads, product, Overlay{});
}

}  // namespace sk
