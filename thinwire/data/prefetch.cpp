#include "thinwire/data/prefetch.h"

#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::data {

Prefetcher::Prefetcher(const Rows& rows, uint64_t first_step, Order order, size_t depth)
    : rows_(rows), order_(std::move(order)), depth_(depth) {
  if (depth == 0) throw Error("a prefetcher needs a depth of at least 1 step");
  thread_ = std::thread([this, first_step] { loop(first_step); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Prefetcher::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || error_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(error_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Prefetcher::loop(uint64_t step) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || ready_.size() < depth_; });
    if (stop_) return;
    lock.unlock();
    Batch batch;
    std::exception_ptr error;
    try {
      batch = read(step++);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ready_.push_back(std::move(batch));
    changed_.notify_all();
    if (error) return;
  }
}

Batch Prefetcher::read(uint64_t step) const {
  const std::vector<uint64_t> order = order_(step);
  return {rows_.read(order), step, order.size()};
}

}  // namespace thinwire::data
