// A mutex for critical sections that are shorter than a thread's wake-up.
#ifndef COMMON_REPLAY_CC_SPIN_MUTEX_H_
#define COMMON_REPLAY_CC_SPIN_MUTEX_H_

#include <mutex>

namespace replay {

// Waits busily for about as long as the longest section lasts, some 50 us, and
// sleeps only then: to be woken costs more than that, above all in a virtual
// machine, and would be the better part of a sample's latency beside adders.
class SpinMutex {
 public:
  void lock() {
    for (int i = 0; i < kSpins; ++i) {
      if (mutex_.try_lock()) return;
      Pause();
    }
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr int kSpins = 1000;

  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::mutex mutex_;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_SPIN_MUTEX_H_
