// Combines the losses that the members of a run report, each over its own rows, into means over all
// rows. A pure state machine.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/membership/messages.h"

namespace thinwire::hosts {

// Not thread-safe.
class LossBoard {
 public:
  struct Point {
    std::string set;  // as in membership::Loss
    int64_t step = 0;
    double loss = 0;
  };

  // `sets`: the names of the validation sets; losses on others are ignored.
  explicit LossBoard(std::set<std::string> sets);

  // `newest`: the last step of the rounds opened so far. Ignored are later steps, a member's second
  // report on the same set and step, and steps that were already taken.
  void add(const membership::Loss& loss, int64_t newest);
  // How many members have reported on this set and step.
  size_t reports(const std::string& set, int64_t step) const;
  // The mean losses on this set up to step `last`, in the order of steps; each is returned once.
  std::vector<Point> take(const std::string& set, int64_t last);
  // The same for training up to step `trained`, and for each validation set up to step `evaluated`.
  std::vector<Point> take_all(int64_t trained, int64_t evaluated);

 private:
  struct Sum {
    double loss = 0;
    double weight = 0;
    std::set<int> members;
  };

  std::set<std::string> sets_;
  std::map<std::pair<std::string, int64_t>, Sum> sums_;  // by set and step
  std::map<std::string, int64_t> taken_;                 // by set, the last step
};

}  // namespace thinwire::hosts
