// Which of the ways to train, given what they cost.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {

struct Recommendation {
  size_t index = 0;  // into the costs
  std::string reason;
};

// Of the costs that run, fit into every member's memory and are expected to end at most `tolerance`
// nats behind the best of these: the least time; where times are within 1 %, the least bytes. None
// where nothing fits.
std::optional<Recommendation> recommend(std::span<const MethodCost> costs, double tolerance);

}  // namespace thinwire::plan
