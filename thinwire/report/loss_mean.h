// The training loss that people are shown: the mean of the last tenth of a run's steps, at most 50,
// so that it is neither that of one batch nor that of a model long gone. It follows from the losses
// of the steps alone, so an interrupted run comes to the same.
#pragma once

#include <cstdint>
#include <deque>

namespace thinwire::report {

class LossMean {
 public:
  void add(double loss);
  // 0 before the first step.
  double value() const;
  // How many steps it is the mean of.
  int64_t steps() const;

 private:
  static constexpr int64_t kShare = 10;
  static constexpr int64_t kMostSteps = 50;

  std::deque<double> last_;
  int64_t added_ = 0;
};

}  // namespace thinwire::report
