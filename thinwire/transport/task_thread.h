// A thread that does what it is given, in order, and something of its own when that is due.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace thinwire::transport {

class TaskThread {
 public:
  using Task = std::function<void()>;

  // `after` runs after every task and whenever the time that it returned last has come, in seconds
  // of monotonic_seconds(); infinity: not by itself.
  explicit TaskThread(std::function<double()> after);
  // Does what was given before, and ends.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Any thread. Ignored once the destructor runs.
  void post(Task task);

 private:
  void run();

  const std::function<double()> after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::thread thread_;  // last, for it uses the others
};

}  // namespace thinwire::transport
