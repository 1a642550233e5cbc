#include "thinwire/base/helper_threads.h"

#include <chrono>

namespace thinwire {
namespace {

// How long a helper looks for work before it sleeps: waking it takes some 50 microseconds.
constexpr std::chrono::microseconds kSpinTime{200};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

HelperThreads::HelperThreads(int count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { help(); });
}

HelperThreads::~HelperThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HelperThreads::share(const std::function<void()>& work) {
  if (threads_.empty()) return work();
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    ++shared_;
  }
  wake_.notify_all();
  work();
  {
    const std::lock_guard lock(mutex_);
    work_ = nullptr;
  }
  // A helper has at most one piece left.
  for (int spins = 0; helping_ > 0; ++spins) {
    spins < 1000 ? pause_briefly() : std::this_thread::yield();
  }
}

void HelperThreads::help() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto ready = [&] { return stop_ || shared_ != seen; };
    lock.unlock();
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    while (!ready() && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 32 && !ready(); ++i) pause_briefly();
    }
    lock.lock();
    wake_.wait(lock, ready);
    if (stop_) return;
    seen = shared_;
    const auto* const work = work_;
    if (work == nullptr) continue;
    ++helping_;
    lock.unlock();
    (*work)();
    --helping_;
    lock.lock();
  }
}

}  // namespace thinwire
