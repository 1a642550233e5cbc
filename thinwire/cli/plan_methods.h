// What `thinwire plan RECIPE` found out, and how it says so.
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
// Compute utilisation while all lines grow alike, over the rate up of the slowest.
void draw_plan(const MethodPlan& plan, const std::string& file);

}  // namespace thinwire::cli
