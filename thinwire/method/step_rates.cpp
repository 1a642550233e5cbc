#include "thinwire/method/step_rates.h"

#include "thinwire/method/adapters/relora.h"
#include "thinwire/schedule/learning_rate.h"

namespace thinwire::method {

StepRates step_rates(const config::Recipe& recipe, const schedule::Rounds& rounds, int64_t step) {
  const auto rate = [&](int64_t at) {
    return schedule::learning_rate(recipe.schedule, recipe.optim.lr, rounds.steps, at) *
           rewarm_factor(recipe, at);
  };
  double sum = 0;
  for (int64_t at = rounds.first_step(step); at <= step; ++at) sum += rate(at);
  return {static_cast<float>(rate(step)), static_cast<float>(sum)};
}

}  // namespace thinwire::method
