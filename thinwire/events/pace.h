// How fast a run goes at present: the mean over its latest steps, from which the time left follows.
// Terminals and the live page show the same figures because both use this class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace thinwire::events {

// Not thread-safe.
class Pace {
 public:
  static constexpr size_t kLatest = 50;  // calls over which the mean is taken

  // `done` steps are done at `now`, in seconds of any clock. A call counts if there are more of
  // them than at the last one.
  void note(int64_t done, double now) {
    if (!latest_.empty() && done <= latest_.back().first) return;
    latest_.emplace_back(done, now);
    if (latest_.size() > kLatest) latest_.pop_front();
  }
  // Seconds that a step takes; nothing until two calls have counted.
  std::optional<double> step_s() const {
    if (latest_.size() < 2) return std::nullopt;
    const auto& [first_done, first] = latest_.front();
    const auto& [done, now] = latest_.back();
    return (now - first) / static_cast<double>(done - first_done);
  }
  // Seconds until `total` steps are done.
  std::optional<double> left_s(int64_t total) const {
    const std::optional<double> one = step_s();
    if (!one) return std::nullopt;
    return *one * static_cast<double>(total - latest_.back().first);
  }

 private:
  std::deque<std::pair<int64_t, double>> latest_;
};

}  // namespace thinwire::events
