// Threads that help with work of some 10 to 1000 microseconds, many times in close succession.
// A ThreadPool waits for all its threads in every call, which takes as long as the operating system
// needs to run them; here the caller waits for nobody who has not begun.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace thinwire {

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
  std::mutex mutex_;
  std::condition_variable wake_;
  // Written with the mutex held; null while there is nothing to help with.
  const std::function<void()>* work_ = nullptr;
  std::atomic<uint64_t> shared_ = 0;  // calls of share() so far
  std::atomic<int> helping_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace thinwire
