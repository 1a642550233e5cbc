#include "thinwire/method/privacy/privacy.h"

#include <fmt/format.h>

#include "thinwire/base/units.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::method {

GaussianMechanism mechanism_of(const config::PrivacySection& privacy) {
  return {privacy.noise, privacy.sampling};
}

uint64_t planned_sums(const config::Recipe& recipe, int64_t completed) {
  const auto& options = recipe.section<DilocoOptions>(recipe.sync.method);
  const schedule::FragmentSchedule schedule{
      recipe.train.steps, options.sync_every,
      fragment_count(recipe.model.layers, options.fragments())};
  uint64_t sums = 0;
  for (int64_t fragment = 0; fragment < schedule.fragments; ++fragment) {
    sums += static_cast<uint64_t>(schedule.sent(fragment, schedule.steps) -
                                  schedule.sent(fragment, completed));
  }
  return sums;
}

double epsilon_of(const config::PrivacySection& privacy, uint64_t sums) {
  return epsilon_of(mechanism_of(privacy), sums, privacy.delta);
}

std::string describe_privacy(const config::PrivacySection& privacy, uint64_t sums) {
  return fmt::format("after {} with noise: epsilon {:.4g} at delta {:g}",
                     counted(sums, "contribution"), epsilon_of(privacy, sums), privacy.delta);
}

std::string planned_privacy(const config::Recipe& recipe) {
  if (!recipe.privacy.noisy()) return "";
  return "what a member that takes part in all of the run tells of its text is bounded, " +
         describe_privacy(recipe.privacy, planned_sums(recipe));
}

}  // namespace thinwire::method
