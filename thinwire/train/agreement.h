// Agreement on the point at which all workers of a run do something that was asked for during
// training, e.g. stop or write a checkpoint: a point that none of them has passed yet. Points are
// numbered in ascending order, and every worker passes them in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

namespace thinwire::train {

// What the workers of one process know about it. Thread-safe.
class Agreement {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  // A worker has reached `point`. Returns the agreed point, or kNone if there is none yet. Returns
  // nullopt if the worker may not pass before that is known: it must call again once may_pass() is
  // true.
  std::optional<int64_t> reach(int64_t point);
  // Takes no lock.
  bool may_pass(int64_t point) const { return point <= limit_; }

  // If all workers are in this process: agrees on the first point that none has passed.
  void settle_here();
  // If they are in several processes: returns the latest point that a worker of this process may
  // have passed. Until settle() they pass at most `margin` points after it. Forgets the previous
  // point.
  int64_t promise(int64_t margin);
  void settle(int64_t point);
  // All have reached `point`: if it is the agreed one, the next agreement can begin.
  void all_reached(int64_t point);

 private:
  std::mutex mutex_;
  int64_t latest_ = -1;
  int64_t agreed_ = kNone;
  std::atomic<int64_t> limit_ = kNone;  // the last point that may be passed
};

}  // namespace thinwire::train
