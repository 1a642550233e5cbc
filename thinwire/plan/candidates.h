// The candidates that the planner compares: every registered method with a recipe's settings and
// with variations of what determines its traffic, and the papers' schedules, which are only
// simulated.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/plan/utilization.h"

namespace thinwire::plan {

struct Candidate {
  std::string method;     // value of sync.method, or the schedule's name
  std::string setting;    // how it differs from the recipe, "overlap = 1"; may be empty
  config::Recipe recipe;  // the recipe that would run
  std::optional<SyncSchedule> simulated;  // set if it is only simulated
  bool hosts = false;                     // members join a run that `thinwire serve` serves
};

struct LeftOut {
  std::string method;
  std::string reason;
};

struct Candidates {
  std::vector<Candidate> all;
  std::vector<LeftOut> left_out;  // methods that the recipe's other fields rule out
};

// The recipe at `path` with `overrides` as thinwire train would load it, for `members` workers,
// with each method. One thing at a time is varied, where a method allows it: overlap (DisTrO's with
// look_ahead, too), the steps between exchanges (sync_every or local_steps: 32, 128, 512), DisTrO's
// k (8, 32, 128, 512), and, where workers train independently, the wire (fp4, or int2 or
// int1 with error_feedback, with sums in fp4 as well), whether the members of each of `clusters`
// sites (0: none) train as one, and, if they are `unequal`, shares by speed.
Candidates make_candidates(const std::filesystem::path& path,
                           std::span<const std::string> overrides, int64_t members,
                           int64_t clusters = 0, bool unequal = false);

}  // namespace thinwire::plan
