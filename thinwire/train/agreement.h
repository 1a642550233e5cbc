// Where all workers of a run do what was asked for while they train, e.g. stop or write a
// checkpoint: at a point that none of them has passed yet. Points count up, and every worker passes
// them in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

namespace thinwire::train {

// What the workers of one process know of it. Thread-safe.
class Agreement {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  // A worker has come to `point`. Returns the agreed point, kNone before there is one; nothing
  // where it may not pass before that is known, and has to come again once may_pass() says so.
  std::optional<int64_t> come_to(int64_t point);
  // Takes no lock.
  bool may_pass(int64_t point) const { return point <= limit_; }

  // Where all workers are in this process: settles on the first point that none has passed.
  void settle_here();
  // Where they are in several: the latest point that one of this process may have passed. They pass
  // no more than the `margin` points after it before settle(). Forgets the point of before.
  int64_t promise(int64_t margin);
  void settle(int64_t point);
  // All have come to `point`: if it is the agreed one, a next can be settled on.
  void all_came_to(int64_t point);

 private:
  std::mutex mutex_;
  int64_t latest_ = -1;
  int64_t agreed_ = kNone;
  std::atomic<int64_t> limit_ = kNone;  // the last point that may be passed
};

}  // namespace thinwire::train
