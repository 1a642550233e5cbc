#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/report/recorder.h"

namespace thinwire::report {

void LossMean::add(double loss) {
  ++added_;
  last_.push_back(loss);
  if (last_.size() > static_cast<size_t>(kMaxSteps)) last_.pop_front();
}

double LossMean::value() const {
  if (added_ == 0) return 0;
  return std::accumulate(last_.end() - steps(), last_.end(), 0.0) / static_cast<double>(steps());
}

int64_t LossMean::steps() const { return std::min((added_ + kShare - 1) / kShare, kMaxSteps); }

namespace {

double ratio(double sum, double count) { return count > 0 ? sum / count : 0; }

}  // namespace

void RunTotals::add(const events::StepEvent& event) {
  completed_ = event.step;
  last_recorded_ = event.step;
  ++recorded_;
  loss_.add(event.loss);
  tokens_ += event.tokens;
  seconds_ += static_cast<double>(event.tokens) / event.tokens_per_second;
  bytes_sent_ += event.bytes_sent;
  bytes_received_ += event.bytes_received;
  for (const auto& [phase, seconds] : event.seconds) {
    if (phase == kSimulatedPhase) simulated_seconds_ += seconds;
    if (phase == kSimulatedComputePhase) simulated_compute_seconds_ += seconds;
  }
}

void RunTotals::add(const events::EvalEvent& event) {
  (event.score ? scores_ : val_loss_)[event.name] = event.loss;
}

double RunTotals::tokens_per_second() const {
  return ratio(static_cast<double>(tokens_), seconds_);
}

double RunTotals::bytes_sent_per_step() const {
  return ratio(bytes_sent_, static_cast<double>(recorded_));
}

double RunTotals::bytes_received_per_step() const {
  return ratio(bytes_received_, static_cast<double>(recorded_));
}

double RunTotals::all_over_recorded() const {
  return ratio(static_cast<double>(completed_), static_cast<double>(recorded_));
}

events::Summary RunTotals::summary() const {
  events::Summary summary;
  summary.name = recipe_.run.name;
  summary.method = recipe_.sync.method;
  summary.within = name_of(recipe_.sync.within);
  summary.workers = recipe_.train.workers;
  summary.steps = completed_;
  summary.tokens = tokens_ + lost() * recipe_.train.batch * recipe_.train.sequence;
  // Unknown if the log lost the last steps: the mean would be of earlier ones.
  const bool known = recorded_ > 0 && last_recorded_ == completed_;
  summary.train_loss = known ? loss_.value() : std::numeric_limits<double>::quiet_NaN();
  summary.train_loss_steps = known ? loss_.steps() : 0;
  summary.val_loss = val_loss_;
  summary.scores = scores_;
  summary.seconds = seconds_ * all_over_recorded();
  summary.seconds_over_links = simulated_seconds();
  summary.compute_utilization = ratio(simulated_compute_seconds_, simulated_seconds_);
  summary.bytes_sent_per_worker_step = bytes_sent_per_step();
  summary.bytes_received_per_worker_step = bytes_received_per_step();
  summary.tokens_per_second = tokens_per_second();
  return summary;
}

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
