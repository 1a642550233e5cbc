// The losses and scores of a served run's last evaluation, over the rows and items of all members.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/mutex.h"
#include "thinwire/events/summary.h"
#include "thinwire/membership/messages.h"

namespace thinwire::hosts {

// Thread-safe.
class FinalLosses {
 public:
  // `scores`: the names of the tasks' metrics, "words.acc".
  explicit FinalLosses(const std::vector<std::string>& scores)
      : scores_(scores.begin(), scores.end()) {}

  // What a member has reported; its later evaluations replace the earlier ones.
  void add(const membership::Loss& loss);
  // Sets the losses that the summary has, and adds the scores, where a member has reported on the
  // evaluation after `steps` steps.
  void fill(int64_t steps, events::Summary& summary) const;

 private:
  struct Last {
    uint64_t step = 0;
    std::map<int, std::pair<double, uint64_t>> sums;  // by member: over so many tokens or items
  };
  struct Total {
    double sum = 0;
    double weight = 0;
  };
  Total total(const std::string& name, int64_t steps) const REQUIRES(mutex_);

  static constexpr size_t kMaxNames = 1000;  // a member may say any

  const std::set<std::string> scores_;
  mutable Mutex mutex_;
  std::map<std::string, Last> last_ GUARDED_BY(mutex_);  // by set or metric
};

}  // namespace thinwire::hosts
