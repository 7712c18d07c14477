// Blocks of threads on the CPU, one after the other, made to show mistakes rather than to be fast:
//   - warps and lanes run in an order drawn from a seed, so that a missing barrier becomes a wrong result;
//   - shared memory begins as NaN;
//   - what cp.async copies arrives when the wait that covers its group is over, not before, and until then
//     its place holds NaN;
//   - misaligned and outside accesses, lanes that meet at different operations, barriers that some thread
//     never reaches and groups left uncommitted are errors.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "fiber.hpp"
#include "warp.hpp"

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace shim {

struct Copy {
  void* to;
  const void* from;  // null: zeros
};

enum class State { ready, at_barrier, at_warp, done };

struct Lane {
  Fiber fiber;
  State state = State::ready;
  int index = 0;
  Request request;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> committed;
};

struct Block {
  dim3 index, grid, size;
  SharedMemory shared;
  std::vector<Lane> lanes;
  Lane* current = nullptr;
  std::string error;
  uint64_t products = 0;
};

inline Block*& block() {
  static thread_local Block* running = nullptr;
  return running;
}

inline Request& together(Op op) {  // called by a lane: wait for the other 31
  Lane& me = *block()->current;
  me.request.op = op;
  me.state = State::at_warp;
  me.fiber.pause();
  return me.request;
}

inline void barrier() {
  Lane& me = *block()->current;
  me.state = State::at_barrier;
  me.fiber.pause();
}

inline void copy_async(void* to, const void* from) {
  block()->shared.check(to, 16, 16, "cp.async");
  if ((uintptr_t)from % 16) wrong("cp.async: misaligned source");
  memset(to, 0xff, 16);
  block()->current->open.push_back({to, from});
}
inline void commit() {
  Lane& me = *block()->current;
  me.committed.push_back(std::move(me.open));
  me.open.clear();
}
inline void wait(size_t pending) {
  for (auto& groups = block()->current->committed; groups.size() > pending; groups.pop_front())
    for (const Copy& copy : groups.front())
      copy.from ? (void)memcpy(copy.to, copy.from, 16) : (void)memset(copy.to, 0, 16);
}

class Scheduler {
 public:
  Scheduler(Block& b, uint32_t seed) : b_(b), dice_(seed), shuffled_(seed != 0) {}

  void run() {
    std::vector<int> warps(b_.lanes.size() / 32);
    for (size_t w = 0; w < warps.size(); w++) warps[w] = (int)w;
    while (count(State::done) < b_.lanes.size()) {
      if (shuffled_) std::shuffle(warps.begin(), warps.end(), dice_);
      bool moved = false;
      for (int warp : warps) moved |= run_some(warp);
      if (count(State::at_barrier) == b_.lanes.size()) {
        for (Lane& lane : b_.lanes) lane.state = State::ready;
      } else if (!moved) {
        wrong("__syncthreads was not reached by every thread");
      }
    }
  }

 private:
  size_t count(State state) const {
    return std::count_if(b_.lanes.begin(), b_.lanes.end(), [&](const Lane& l) { return l.state == state; });
  }
  bool run_some(int warp) {  // one warp as far as it gets, or until the dice let another go first
    bool moved = false;
    for (;;) {
      const int first = shuffled_ ? dice_() % 32 : 0;
      for (int i = 0; i < 32; i++) moved |= step(b_.lanes[warp * 32 + (first + i) % 32]);
      if (!meet(warp)) return moved;
      moved = true;
      if (shuffled_ && dice_() % 4 == 0) return moved;
    }
  }
  bool step(Lane& lane) {
    if (lane.state != State::ready) return false;
    b_.current = &lane;
    lane.fiber.resume();
    if (!b_.error.empty()) wrong(b_.error);
    return true;
  }
  bool meet(int warp) {
    Request* requests[32];
    int waiting = 0;
    for (int i = 0; i < 32; i++) {
      requests[i] = &b_.lanes[warp * 32 + i].request;
      waiting += b_.lanes[warp * 32 + i].state == State::at_warp;
    }
    if (waiting == 0) return false;
    if (waiting < 32) wrong("not every lane of a warp reached an operation that needs all");
    run_warp(requests, b_.shared);
    b_.products += requests[0]->op == Op::mma || requests[0]->op == Op::mma_sp;
    for (int i = 0; i < 32; i++) b_.lanes[warp * 32 + i].state = State::ready;
    return true;
  }

  Block& b_;
  std::mt19937 dice_;
  bool shuffled_;
};

// Run `body` for every thread of a grid; returns how many tensor-core operations there were.
inline uint64_t launch(dim3 grid, dim3 size, size_t shared, uint32_t seed, const std::function<void()>& body) {
  const size_t threads = (size_t)size.x * size.y * size.z;
  if (threads % 32) wrong("the shim runs whole warps only");
  if (shared > 227 << 10) wrong("more shared memory than any processor has for a block");
  Stacks stacks(threads);
  std::unique_ptr<char[]> room(new char[shared + 1024]);
  uint64_t products = 0;
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        Block b;
        b.index = dim3(x, y, z), b.grid = grid, b.size = size;
        b.shared.begin = (char*)(((uintptr_t)room.get() + 1023) / 1024 * 1024), b.shared.size = shared;
        memset(b.shared.begin, 0xff, shared);
        b.lanes = std::vector<Lane>(threads);
        stacks.forget();
        std::function<void()> entry = [&] {
          try {
            body();
            if (!b.current->open.empty()) wrong("cp.async was left uncommitted");
          } catch (const std::exception& error) {
            if (b.error.empty()) b.error = error.what();
          }
          b.current->state = State::done;
        };
        for (size_t i = 0; i < threads; i++) {
          b.lanes[i].index = (int)i;
          b.lanes[i].fiber.start(stacks.base + i * STACK, &entry);
        }
        block() = &b;
        try {
          Scheduler(b, seed ? seed + x * 7919 + y * 104729 + z * 1299709 : 0).run();
        } catch (const std::exception& error) {  // suspended fibers go with their stacks
          block() = nullptr;
          throw std::runtime_error(std::string(error.what()) + " [block " + std::to_string(x) + "," +
                                   std::to_string(y) + "," + std::to_string(z) + " thread " +
                                   std::to_string(b.current ? b.current->index : 0) + "]");
        }
        block() = nullptr;
        products += b.products;
      }
  return products;
}

}  // namespace shim
