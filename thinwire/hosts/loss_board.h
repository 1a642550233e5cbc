// The losses that the members of a run report, each over its own rows, as means over all rows. A
// pure state machine.
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

  // `sets`: the names of the validation sets; losses on others are not taken.
  explicit LossBoard(std::set<std::string> sets);

  // `newest`: the last step of the rounds that are open; later ones are not taken. Nor is a second
  // report of a member on the same, or one about a step that was taken already.
  void add(const membership::Loss& loss, int64_t newest);
  // How many members have reported on this.
  size_t reports(const std::string& set, int64_t step) const;
  // The means of what was reported on this up to step `last`, in the order of steps; each is given
  // once.
  std::vector<Point> take(const std::string& set, int64_t last);
  // Likewise of training up to step `trained`, and of each validation set up to step `evaluated`.
  std::vector<Point> take_all(int64_t trained, int64_t evaluated);

 private:
  struct Sum {
    double loss = 0;
    double weight = 0;
    std::set<int> members;
  };

  std::set<std::string> sets_;
  std::map<std::pair<std::string, int64_t>, Sum> sums_;  // by set and step
  std::map<std::string, int64_t> taken_;                 // by set, up to which step
};

}  // namespace thinwire::hosts
