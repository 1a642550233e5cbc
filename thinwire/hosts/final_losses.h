// The losses and scores of a served run's last evaluation, over the rows and items of all members.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/mutex.h"
#include "thinwire/events/summary.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"

namespace thinwire::hosts {

// Thread-safe.
class FinalLosses {
 public:
  // `scores`: the names of the tasks' metrics, "words.acc".
  explicit FinalLosses(const std::vector<std::string>& scores)
      : scores_(scores.begin(), scores.end()) {}

  // Which members take part in the run's last evaluation: those of the round that is opened last.
  void record(const membership::Record& record);
  // What a member has reported; its later evaluations replace its earlier ones.
  void add(const membership::Loss& loss);
  // Sets the losses that the summary has, and adds the scores, of which all of these members have
  // reported the evaluation after `steps` steps.
  void fill(int64_t steps, events::Summary& summary) const;

 private:
  struct Total {
    double sum = 0;
    double weight = 0;
  };
  // Without a weight unless all have reported.
  Total total(const std::string& name, int64_t steps) const REQUIRES(mutex_);

  // One member may say so many names, of any kind: they keep nobody else's from being counted.
  static constexpr size_t kMaxNames = 1000;

  const std::set<std::string> scores_;
  mutable Mutex mutex_;
  std::vector<membership::Share> roster_ GUARDED_BY(mutex_);
  // By member, and set or metric.
  std::map<int, std::map<std::string, membership::Loss>> last_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::hosts
