// The learning rates of a run's steps, determined by its recipe and its adapter: a pure function,
// shared by all code that opens rounds (train/open_round.h, membership/run_plan.h).
#pragma once

#include <cstdint>

#include "thinwire/config/recipe.h"
#include "thinwire/schedule/rounds.h"

namespace thinwire::method {

// The learning rate of a training step, and the sum of its round's learning rates so far, including
// this step's, summed in double in the order of the steps. Their exact bits count (base/round.h).
struct StepRates {
  float learning_rate = 0;
  float round_rate = 0;
  bool operator==(const StepRates&) const = default;
};
StepRates step_rates(const config::Recipe& recipe, const schedule::Rounds& rounds, int64_t step);

}  // namespace thinwire::method
