// The history of the loss on the validation set that a run watches (eval.watch), on which early
// stopping and the best checkpoint are based.
#pragma once

#include <cstdint>
#include <limits>

namespace thinwire::checkpoint {

struct BestLoss {
  int64_t step = -1;  // steps completed at the lowest loss; -1: nothing was evaluated yet
  double loss = std::numeric_limits<double>::infinity();
  int64_t since = 0;  // evaluations since then

  void add(int64_t completed, double value) {
    if (value < loss) {
      *this = {completed, value, 0};
    } else {
      ++since;
    }
  }
  // Never with patience 0.
  bool exhausts(int64_t patience) const { return patience > 0 && since >= patience; }
};

}  // namespace thinwire::checkpoint
