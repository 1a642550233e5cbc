// What a run is to do, round by round, whoever takes part: facts of its recipe that a coordinator
// puts into the ledger and members read from there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

// Pure functions; any thread.
class RunPlan {
 public:
  virtual ~RunPlan() = default;
  virtual uint64_t workers() const = 0;  // the run begins with so many members
  virtual uint64_t batch() const = 0;    // rows a step, over all members
  // Rounds that are open beside the oldest: exchanges of so many may be in flight while members
  // compute.
  virtual uint64_t overlap() const = 0;
  virtual uint64_t rounds() const = 0;
  // All of an opening but its epoch and roster. `number` < rounds().
  virtual Opening round(uint64_t number) const = 0;
};

// The operations of a round, ascending by fragment.
using OperationsOf = std::function<std::vector<PlannedOperation>(uint64_t round)>;

// The recipe's: rounds of the method's length, rates by the recipe's schedule. The recipe outlives
// the plan.
std::unique_ptr<RunPlan> make_run_plan(const config::Recipe& recipe, uint64_t overlap,
                                       OperationsOf operations);

}  // namespace thinwire::membership
