// What a run does, round by round, regardless of who takes part: facts of its recipe that a
// coordinator writes into the ledger and members read there.
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
  virtual uint64_t workers() const = 0;  // the number of members that the run begins with
  virtual uint64_t batch() const = 0;    // rows per step, over all members
  // How many rounds may be open besides the oldest, that is, how many may have exchanges in flight
  // while members compute.
  virtual uint64_t overlap() const = 0;
  virtual uint64_t rounds() const = 0;
  // An opening without its epoch and roster. `number` < rounds().
  virtual Opening round(uint64_t number) const = 0;
};

// The operations of a round, ascending by fragment.
using OperationsOf = std::function<std::vector<PlannedOperation>(uint64_t round)>;

// The plan of a recipe: rounds of the method's length, rates from the recipe's schedule. The recipe
// must outlive the plan.
std::unique_ptr<RunPlan> make_run_plan(const config::Recipe& recipe, uint64_t overlap,
                                       OperationsOf operations);

}  // namespace thinwire::membership
