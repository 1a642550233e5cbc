#include "thinwire/report/curves.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/report/loss_mean.h"

namespace thinwire::report {
namespace {

struct StepTag {
  const char* tag;
  double events::StepEvent::*field;
};
constexpr std::array<StepTag, 6> kStepTags = {
    {{"train/loss", &events::StepEvent::loss},
     {"train/learning_rate", &events::StepEvent::learning_rate},
     {"train/gradient_norm", &events::StepEvent::gradient_norm},
     {"speed/tokens_per_second", &events::StepEvent::tokens_per_second},
     {"wire/bytes_sent", &events::StepEvent::bytes_sent},
     {"wire/bytes_received", &events::StepEvent::bytes_received}}};
constexpr const char* kMeanLossTag = "train/mean_loss";

std::string tag_of(const events::EvalEvent& event) {
  return (event.score ? "task/" : "loss/") + event.name;
}

// Looks up steps of a tag; they must be asked for in ascending order.
class Written {
 public:
  explicit Written(events::TensorBoardSteps steps) : steps_(std::move(steps)) {}

  bool has(const std::string& tag, int64_t step) {
    const std::vector<int64_t>& known = steps_[tag];
    size_t& at = next_[tag];
    while (at < known.size() && known[at] < step) ++at;
    return at < known.size() && known[at] == step;
  }

 private:
  events::TensorBoardSteps steps_;
  std::map<std::string, size_t> next_;
};

// The first step for which the event files lack something.
int64_t first_missing(const fs::path& folder, int64_t resume_step,
                      const events::RunHistory& history) {
  Written written(events::tensorboard_steps(folder));
  int64_t missing = resume_step + 1;
  for (const events::StepEvent& event : history.steps) {
    const auto has = [&](const StepTag& one) { return written.has(one.tag, event.step); };
    const bool whole = std::ranges::all_of(kStepTags, has) && written.has(kMeanLossTag, event.step);
    if (!whole) missing = std::min(missing, event.step);
  }
  for (const events::EvalEvent& event : history.evals) {
    if (!written.has(tag_of(event), event.step)) missing = std::min(missing, event.step);
  }
  return missing;
}

double wall_time(double logged) { return logged > 0 ? logged : unix_seconds(); }

}  // namespace

Curves::Curves(const fs::path& folder, int64_t resume_step, const events::RunHistory& history)
    : first_step_(first_missing(folder, resume_step, history)), writer_(folder, first_step_) {
  LossMean loss;
  for (const events::StepEvent& event : history.steps) {
    loss.add(event.loss);
    if (event.step >= first_step_) add(event, loss.value());
  }
  for (const events::EvalEvent& event : history.evals) {
    if (event.step >= first_step_) add(event);
  }
}

void Curves::add(const events::StepEvent& event, double mean_loss) {
  const double time = wall_time(event.time);
  for (const StepTag& one : kStepTags) {
    writer_.scalar(one.tag, event.step, event.*one.field, time);
  }
  writer_.scalar(kMeanLossTag, event.step, mean_loss, time);
  if (!event.rewards) return;
  for (const events::RewardField& field : events::kRewardFields) {
    writer_.scalar(std::string("rewards/") + field.name, event.step, (*event.rewards).*field.value,
                   time);
  }
}

void Curves::add(const events::EvalEvent& event) {
  writer_.scalar(tag_of(event), event.step, event.loss, wall_time(event.time));
}

}  // namespace thinwire::report
