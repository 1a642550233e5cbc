// Reads the rows of the next steps on a thread of its own, so that a step never waits for the disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/data/rows.h"

namespace thinwire::data {

// The rows of one step.
struct Batch : RowBlock {
  uint64_t step = 0;
  uint64_t rows = 0;
};

class Prefetcher {
 public:
  // Which rows a step takes; called on the prefetch thread, in step order, at most `depth` steps
  // ahead of take().
  using Order = std::function<std::vector<uint64_t>(uint64_t step)>;

  // `rows` must outlive this; depth >= 1.
  Prefetcher(const Rows& rows, uint64_t first_step, Order order, size_t depth = kStepsReadAhead);
  ~Prefetcher();  // stops the thread and drops what was read ahead
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next step's batch, in order from first_step. An error while reading it is thrown here, and
  // again on every later call.
  Batch take();

 private:
  void loop(uint64_t step);
  Batch read(uint64_t step) const;

  const Rows& rows_;
  Order order_;
  size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace thinwire::data
