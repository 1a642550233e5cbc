#include "thinwire/base/threads.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "thinwire/base/error.h"

namespace thinwire {

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) throw Error("a thread pool needs at least 1 thread");
  for (int thread = 1; thread < threads; ++thread) {
    helpers_.emplace_back([this, thread] { helper_loop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::helper_loop(int thread) {
  uint64_t seen = 0;
  const Lock lock(mutex_);
  while (true) {
    while (!stop_ && generation_ == seen) wake_.wait(mutex_);
    if (stop_) return;
    seen = generation_;
    const auto* task = task_;
    std::exception_ptr error;
    try {
      const Unlock meanwhile(mutex_);
      (*task)(thread);
    } catch (...) {
      error = std::current_exception();
    }
    if (error && !error_) error_ = error;
    if (--running_ == 0) done_.notify_all();
  }
}

void ThreadPool::run(const std::function<void(int)>& task) {
  if (helpers_.empty()) {
    task(0);
    return;
  }
  {
    const Lock lock(mutex_);
    task_ = &task;
    running_ = static_cast<int>(helpers_.size());
    error_ = nullptr;
    ++generation_;
  }
  wake_.notify_all();
  std::exception_ptr error;
  try {
    task(0);
  } catch (...) {
    error = std::current_exception();
  }
  const Lock lock(mutex_);
  while (running_ > 0) done_.wait(mutex_);
  if (!error) error = error_;
  if (error) std::rethrow_exception(error);
}

void ThreadPool::for_each(int64_t count, const std::function<void(int64_t)>& body) {
  for_ranges(count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t index = begin; index < end; ++index) body(index);
  });
}

void ThreadPool::for_ranges(int64_t count, int64_t grain,
                            const std::function<void(int64_t, int64_t, int)>& body) {
  const int64_t grains = (count + grain - 1) / grain;
  run([&](int thread) {
    const int64_t begin = std::min(count, grains * thread / size() * grain);
    const int64_t end = std::min(count, grains * (thread + 1) / size() * grain);
    if (begin < end) body(begin, end, thread);
  });
}

void CorePermits::acquire(int count) {
  const Lock lock(mutex_);
  while (free_ < count) freed_.wait(mutex_);
  free_ -= count;
}

void CorePermits::release(int count) {
  {
    const Lock lock(mutex_);
    free_ += count;
  }
  freed_.notify_all();
}

void PermitHold::pause() {
  if (permits_ != nullptr && held_) permits_->release(count_);
  held_ = false;
}

void PermitHold::resume() {
  if (permits_ != nullptr && !held_) permits_->acquire(count_);
  held_ = true;
}

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
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HelperThreads::share(const std::function<void()>& work) {
  if (threads_.empty()) return work();
  {
    const Lock lock(mutex_);
    work_ = &work;
    ++shared_;
  }
  wake_.notify_all();
  work();
  {
    const Lock lock(mutex_);
    work_ = nullptr;
  }
  // A helper has at most one piece left.
  for (int spins = 0; helping_ > 0; ++spins) {
    spins < 1000 ? pause_briefly() : std::this_thread::yield();
  }
}

void HelperThreads::help() {
  uint64_t seen = 0;
  const auto ready = [&] { return stop_ || shared_ != seen; };
  while (true) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    while (!ready() && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 32 && !ready(); ++i) pause_briefly();
    }
    const std::function<void()>* work = nullptr;
    {
      const Lock lock(mutex_);
      while (!ready()) wake_.wait(mutex_);
      if (stop_) return;
      seen = shared_;
      work = work_;
      if (work != nullptr) ++helping_;
    }
    if (work == nullptr) continue;
    (*work)();
    --helping_;
  }
}

}  // namespace thinwire
