#include "thinwire/transport/task_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "thinwire/base/clock.h"

namespace thinwire::transport {
namespace {

constexpr double kLongest = 3600;  // seconds; infinity would not fit into the clock's type

}  // namespace

TaskThread::TaskThread(std::function<double()> after)
    : after_(std::move(after)), thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TaskThread::post(Task task) {
  {
    const Lock lock(mutex_);
    if (ending_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void TaskThread::run() {
  double due = after_();
  const Lock lock(mutex_);
  while (true) {
    const std::chrono::duration<double> left(std::clamp(due - monotonic_seconds(), 0.0, kLongest));
    if (!ending_ && tasks_.empty()) changed_.wait_for(mutex_, left);
    if (tasks_.empty() && ending_) return;
    Task task;
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    const Unlock meanwhile(mutex_);
    if (task) task();
    due = after_();
    task = nullptr;  // what it holds may be large, or post
  }
}

}  // namespace thinwire::transport
