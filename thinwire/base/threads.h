// Who owns the threads. A worker has one ThreadPool with as many threads as its recipe says;
// nothing else in the process starts compute threads (matrix libraries run on the calling thread).
// CorePermits keeps the number of computing threads over all workers at or below the number of
// cores: a worker holds its permits while it computes and gives them back while it waits for
// others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "thinwire/base/mutex.h"

namespace thinwire {

class ThreadPool {
 public:
  // threads >= 1; the calling thread counts as one, so threads - 1 are started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls body(index) for every index in [0, count), each thread taking one contiguous, fixed
  // share, and returns when all calls are done. The first exception is rethrown here. Not
  // reentrant.
  void for_each(int64_t count, const std::function<void(int64_t)>& body);

  // Calls body(begin, end, thread) once per thread with a fixed partition of [0, count) whose inner
  // boundaries are multiples of `grain`; threads whose share is empty are not called.
  void for_ranges(int64_t count, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end, int thread)>& body);

 private:
  void run(const std::function<void(int)>& task);
  void helper_loop(int thread);

  std::vector<std::thread> helpers_;
  Mutex mutex_;
  Condition wake_;
  Condition done_;
  const std::function<void(int)>* task_ GUARDED_BY(mutex_) = nullptr;
  uint64_t generation_ GUARDED_BY(mutex_) = 0;
  int running_ GUARDED_BY(mutex_) = 0;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ GUARDED_BY(mutex_);
};

class CorePermits {
 public:
  explicit CorePermits(int permits) : free_(permits) {}
  void acquire(int count);
  void release(int count);

 private:
  Mutex mutex_;
  Condition freed_;
  int free_ GUARDED_BY(mutex_);
};

// Holds permits for a scope; pause() and resume() around a wait for other workers. With a null
// pointer it does nothing: cores are not shared.
class PermitHold {
 public:
  PermitHold(CorePermits* permits, int count) : permits_(permits), count_(count) { resume(); }
  ~PermitHold() { pause(); }
  PermitHold(const PermitHold&) = delete;
  PermitHold& operator=(const PermitHold&) = delete;
  void pause();
  void resume();

 private:
  CorePermits* permits_;
  int count_;
  bool held_ = false;
};

// Threads that help with work of some 10 to 1000 microseconds, many times in close succession.
// A ThreadPool waits for all its threads in every call, which takes as long as the operating system
// needs to run them; here the caller waits for nobody who has not begun.
class HelperThreads {
 public:
  // count >= 0; besides the thread that calls share().
  explicit HelperThreads(int count);
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  // Calls work() here and, as long as that has not returned, on helpers when they get to it. Each
  // call takes pieces of the work until none is left, so that one call alone does everything.
  // Returns when all calls that began have returned. `work` must not throw. One thread at a time
  // may call this.
  void share(const std::function<void()>& work);

 private:
  void help();

  std::vector<std::thread> threads_;
  Mutex mutex_;
  Condition wake_;
  // Null while there is nothing to help with.
  const std::function<void()>* work_ GUARDED_BY(mutex_) = nullptr;
  std::atomic<uint64_t> shared_ = 0;  // calls of share() so far
  std::atomic<int> helping_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace thinwire
