// Time. Durations are seconds as double.
#pragma once

#include <chrono>

namespace thinwire {

// Seconds on a clock that never goes backwards.
inline double monotonic_seconds() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970, for file formats that need it.
inline double unix_seconds() {
  using std::chrono::system_clock;
  return std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
}

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
