#include "thinwire/report/loss_mean.h"

#include <algorithm>
#include <numeric>

namespace thinwire::report {

void LossMean::add(double loss) {
  ++added_;
  last_.push_back(loss);
  if (last_.size() > static_cast<size_t>(kMaxSteps)) last_.pop_front();
}

double LossMean::value() const {
  if (added_ == 0) return 0;
  return std::accumulate(last_.end() - steps(), last_.end(), 0.0) / static_cast<double>(steps());
}

int64_t LossMean::steps() const { return std::min((added_ + kShare - 1) / kShare, kMaxSteps); }

}  // namespace thinwire::report
