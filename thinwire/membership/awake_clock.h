// A clock that counts only the time during which its machine was awake. A sleeping machine receives
// nothing, so that time must not count as others' silence.
#pragma once

#include <algorithm>
#include <optional>

namespace thinwire::membership {

// Not thread-safe.
class AwakeClock {
 public:
  // It is read at least every `longest_s` seconds while the machine is awake: between two readings,
  // time beyond that was slept.
  explicit AwakeClock(double longest_s) : longest_s_(longest_s) {}

  // `now`: seconds of a clock that never goes back, but may jump ahead. The first reading is `now`.
  double at(double now) {
    awake_ = read_at_ ? awake_ + std::min(now - *read_at_, longest_s_) : now;
    read_at_ = now;
    return awake_;
  }

 private:
  const double longest_s_;
  std::optional<double> read_at_;
  double awake_ = 0;
};

}  // namespace thinwire::membership
