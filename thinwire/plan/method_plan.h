// The plan of a run: what every method costs a group of members, which one to choose, and without
// whom it would be faster.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/plan/candidates.h"
#include "thinwire/plan/laws.h"
#include "thinwire/plan/members.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {

struct MethodPlan {
  config::Recipe recipe;
  PlannedModel model;
  std::vector<Member> members;             // that take part
  std::vector<Member> idle;                // without whom it is faster
  std::optional<double> seconds_with_all;  // of the run if these took part, where that is possible
  std::vector<MethodLaw> laws;
  Candidates candidates;
  double program_bytes = 0;
  std::vector<MethodCost> costs;
  std::optional<Recommendation> recommended;
};

// What a plan is made for.
struct PlanQuestion {
  // The recipe's file, which may be empty, and its overrides.
  std::filesystem::path file;
  std::span<const std::string> overrides;
  double tolerance = 0.05;  // nats of expected loss that may be given up to save time
  // Removes what the members could not run; may be empty.
  std::function<void(Candidates&)> keep = {};
};

// Costs and recommendation of a plan whose recipe, model, members, laws and program_bytes are set.
// Whoever is slow sets the pace of the others, and whoever has a thin line that of the exchanges:
// if some groups finish clearly sooner without the rest, the rest is idle. Throws UsageError as
// make_candidates and method_cost do.
MethodPlan plan_methods(MethodPlan plan, const PlanQuestion& question);

}  // namespace thinwire::plan
