// Coroutines with stacks of their own: one for each CUDA thread of a block.
//
// On x86-64 a switch saves the six registers that a callee must keep and changes the stack pointer;
// elsewhere, or with SK_SHIM_UCONTEXT, the C library does it. AddressSanitizer is told of each switch.
#pragma once
#include <stddef.h>
#include <sys/mman.h>

#include <functional>
#include <new>

#if !defined(__x86_64__) || defined(SK_SHIM_UCONTEXT)
#define SK_SHIM_PORTABLE 1
#include <ucontext.h>
#endif

#ifdef __SANITIZE_ADDRESS__
extern "C" void __sanitizer_start_switch_fiber(void** fake, const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, size_t* size);
extern "C" void __asan_unpoison_memory_region(const volatile void* from, size_t size);
#endif

namespace shim {

constexpr size_t STACK = 128 << 10;

#ifndef SK_SHIM_PORTABLE
extern "C" void sk_shim_swap(void** save_here, void* go_there);
asm(R"(
.pushsection .text
.weak sk_shim_swap
.type sk_shim_swap, @function
sk_shim_swap:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
.size sk_shim_swap, .-sk_shim_swap
.popsection
)");
#endif

// Stacks of all fibers of a block, mapped without being touched.
struct Stacks {
  char* base;
  size_t count;
  explicit Stacks(size_t count) : count(count) {
    void* got = mmap(nullptr, count * STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    base = (char*)got;
  }
  ~Stacks() { munmap(base, count * STACK); }
  Stacks(const Stacks&) = delete;
  void forget() {  // frames of fibers that were dropped in the middle
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(base, count * STACK);
#endif
  }
};

// One coroutine. `resume` runs it until it pauses or ends; `pause` is called from within.
class Fiber {
 public:
  void start(char* stack, std::function<void()>* body) {
    stack_ = stack;
    body_ = body;
#ifdef SK_SHIM_PORTABLE
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack;
    inside_.uc_stack.ss_size = STACK;
    inside_.uc_link = nullptr;
    makecontext(&inside_, (void (*)())enter, 0);
#else
    void** top = (void**)(stack + STACK) - 1;  // so that the entry finds its stack aligned
    *--top = (void*)enter;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    inside_ = top;
#endif
  }
  void resume() {
    current() = this;
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_, STACK);
#endif
#ifdef SK_SHIM_PORTABLE
    swapcontext(&outside_, &inside_);
#else
    sk_shim_swap(&outside_, inside_);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }
  void pause() {
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, home_, home_size_);
#endif
#ifdef SK_SHIM_PORTABLE
    swapcontext(&inside_, &outside_);
#else
    sk_shim_swap(&inside_, outside_);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, &home_, &home_size_);
#endif
  }

 private:
  static Fiber*& current() {
    static thread_local Fiber* fiber = nullptr;
    return fiber;
  }
  static void enter() {
    Fiber* me = current();
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &me->home_, &me->home_size_);
#endif
    (*me->body_)();
    for (;;) me->pause();  // an ended fiber is not resumed
  }

  char* stack_ = nullptr;
  std::function<void()>* body_ = nullptr;
  const void* home_ = nullptr;
  size_t home_size_ = 0;
#ifdef SK_SHIM_PORTABLE
  ucontext_t inside_, outside_;
#else
  void *inside_ = nullptr, *outside_ = nullptr;
#endif
};

}  // namespace shim
