// The results of `thinwire plan RECIPE`, and how they are shown.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/plan/recommend.h"

namespace thinwire::cli {

struct MethodPlan {
  config::Recipe recipe;
  plan::PlannedModel model;
  std::vector<plan::Member> members;
  std::vector<plan::MethodLaw> laws;
  plan::Candidates candidates;
  double program_bytes = 0;
  std::vector<plan::MethodCost> costs;
  std::optional<plan::Recommendation> recommended;
};

nlohmann::ordered_json plan_json(const MethodPlan& plan);
void print_plan(const MethodPlan& plan);
// Draws compute utilisation over the upload rate of the slowest line, scaling all lines alike.
void draw_plan(const MethodPlan& plan, const std::string& file);

}  // namespace thinwire::cli
