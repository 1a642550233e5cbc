// A thread that runs the tasks it is given, in order, and a function that says when it is next due.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "thinwire/base/mutex.h"

namespace thinwire::transport {

class TaskThread {
 public:
  using Task = std::function<void()>;

  // `after` runs at the start, after every task, and at the time that it last returned, in seconds
  // of monotonic_seconds(). Infinity: at no particular time, though it runs at least once an hour.
  explicit TaskThread(std::function<double()> after);
  // Runs the tasks that were posted before, then ends the thread.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // May be called from any thread. Ignored once the destructor has begun.
  void post(Task task);

 private:
  void run();

  const std::function<double()> after_;
  Mutex mutex_;
  Condition changed_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace thinwire::transport
