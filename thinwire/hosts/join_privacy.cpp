// What a member tells its owner of privacy (run_display.h).
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/run_display.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/member/privacy_loss.h"
#include "thinwire/method/privacy/privacy.h"

namespace thinwire::hosts {
namespace {

constexpr double kStatusSeconds = 10;

// Steps that the run has completed, to which a member that returns contributes no more; 0 if the
// coordinator does not say it.
int64_t steps_of_run(RequestClient& requests) {
  const auto answer = requests.ask(RequestKind::kStatus, {}, kStatusSeconds);
  if (!answer) return 0;
  const auto status = read_status(std::string(answer->begin(), answer->end()));
  return status ? static_cast<int64_t>(status->step) : 0;
}

}  // namespace

void tell_privacy(RequestClient& requests, const config::Recipe& recipe, const fs::path& folder,
                  int64_t completed, double most_epsilon, const events::MessageSink& message) {
  const config::PrivacySection& privacy = recipe.privacy;
  if (!privacy.noisy()) {
    if (most_epsilon > 0) {
      throw UsageError(fmt::format(
          "--epsilon {:g}: the run's recipe has {}; leave it out to take part anyway", most_epsilon,
          recipe.data.own ? "[privacy] noise = 0, so nothing bounds what others can "
                            "learn of a member's text"
                          : "data.own = false, so no member has a text of its own"));
    }
    if (privacy.secure_sums) {
      message(
          "the run's recipe has [privacy] secure_sums = true: others see the sum of all members' "
          "contributions, and not this member's own");
    } else if (recipe.data.own) {
      message(
          "the run's recipe has [privacy] noise = 0: nothing bounds what others can learn of this "
          "member's text by its contributions");
    }
    return;
  }
  const uint64_t before = member::contributions_in(folder / member::kPrivacyFile);
  completed = std::max(completed, steps_of_run(requests));
  const uint64_t in_all = before + method::planned_sums(recipe, completed);
  message(fmt::format(
      "the run's recipe bounds what others can learn of this member's text: privacy.clip = {:g}, "
      "noise = {:g}, sampling = {:g}, delta = {:g}",
      privacy.clip, privacy.noise, privacy.sampling, privacy.delta));
  if (before > 0) {
    message("the bound so far, " + method::describe_privacy(privacy, before));
  }
  message("the bound at the end of the run, " + method::describe_privacy(privacy, in_all));
  const double epsilon = method::epsilon_of(privacy, in_all);
  if (most_epsilon == 0 || epsilon <= most_epsilon) return;
  throw UsageError(fmt::format(
      "--epsilon {:g}: to the end of the run others could learn epsilon {:.4g} of this member's "
      "text, by {}; a larger --epsilon takes part",
      most_epsilon, epsilon, counted(in_all, "contribution")));
}

}  // namespace thinwire::hosts
