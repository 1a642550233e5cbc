// The training loss that users see: the mean over the last tenth of a run's steps, at most 50, so
// that it depends neither on a single batch nor on a long outdated model. It depends only on the
// losses of the steps, so an interrupted run gives the same value.
#pragma once

#include <cstdint>
#include <deque>

namespace thinwire::report {

class LossMean {
 public:
  void add(double loss);
  // 0 before the first step.
  double value() const;
  // Number of steps in the mean.
  int64_t steps() const;

 private:
  static constexpr int64_t kShare = 10;
  static constexpr int64_t kMaxSteps = 50;

  std::deque<double> last_;
  int64_t added_ = 0;
};

}  // namespace thinwire::report
