#include "thinwire/report/run_totals.h"

#include <limits>

namespace thinwire::report {
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
  summary.within = recipe_.sync.within;
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

}  // namespace thinwire::report
