// Time. Durations are seconds as double.
#pragma once

#include <chrono>
#include <string>

namespace thinwire {

// Seconds on a clock that never goes backwards.
inline double monotonic_seconds() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Now as ISO 8601 in UTC, e.g. 2026-01-31T12:00:00Z.
std::string utc_timestamp();

// Seconds since 1970, for file formats that need it.
double unix_seconds();

class Stopwatch {
 public:
  double seconds() const { return monotonic_seconds() - start_; }

 private:
  double start_ = monotonic_seconds();
};

// Adds the seconds spent in a scope to a sum.
class TimedScope {
 public:
  explicit TimedScope(double& sum) : sum_(sum) {}
  ~TimedScope() { sum_ += watch_.seconds(); }
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;

 private:
  double& sum_;
  Stopwatch watch_;
};

}  // namespace thinwire
