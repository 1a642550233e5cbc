// Which candidate to recommend, given the costs of all.
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

// Among the candidates that can run, fit into every member's memory and are expected to end at most
// `tolerance` nats behind the best of them: the shortest time; among times within 1 %, the fewest
// bytes. A candidate whose loss is unknown never wins. nullopt if nothing is left.
std::optional<Recommendation> recommend(std::span<const MethodCost> costs, double tolerance);

}  // namespace thinwire::plan
