// A mutex for critical sections that are shorter than a thread's wake-up.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace replay {

// A ticket lock: threads enter in order of arrival, so that an adder at full
// rate cannot keep a sampler out. Waiting threads spin, because waking a thread
// takes longer than the critical sections (about 10 us), especially in a virtual
// machine. After kSpins rounds a waiting thread yields its core, which matters
// when there are more threads than cores.
class FairMutex {
 public:
  void lock() {
    const uint32_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
    for (int spins = 0; serving_.load(std::memory_order_acquire) != ticket;
         ++spins) {
      if (spins < kSpins) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  void unlock() {
    serving_.store(serving_.load(std::memory_order_relaxed) + 1,
                   std::memory_order_release);
  }

 private:
  static constexpr int kSpins = 1000;

  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<uint32_t> next_{0};
  std::atomic<uint32_t> serving_{0};
};

}  // namespace replay
