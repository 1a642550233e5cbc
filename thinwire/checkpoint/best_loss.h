// How the loss on the validation set that a run watches (eval.watch) has gone: what early stopping
// and the best checkpoint go by.
#pragma once

#include <cstdint>
#include <limits>

namespace thinwire::checkpoint {

struct BestLoss {
  int64_t step = -1;  // steps completed at the lowest loss; -1: nothing was evaluated yet
  double loss = std::numeric_limits<double>::infinity();
  int64_t since = 0;  // evaluations after it

  void add(int64_t completed, double value) {
    if (value < loss) {
      *this = {completed, value, 0};
    } else {
      ++since;
    }
  }
  // patience 0: never.
  bool exhausts(int64_t patience) const { return patience > 0 && since >= patience; }
};

}  // namespace thinwire::checkpoint
