#include "thinwire/base/threads.h"

#include <sched.h>

#include <algorithm>
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
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::helper_loop(int thread) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    const auto* task = task_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*task)(thread);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
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
    const std::lock_guard lock(mutex_);
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
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0; });
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
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return free_ >= count; });
  free_ -= count;
}

void CorePermits::release(int count) {
  {
    const std::lock_guard lock(mutex_);
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

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace thinwire
