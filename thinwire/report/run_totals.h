// What the events of a run add up to.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/config/recipe.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/report/loss_mean.h"

namespace thinwire::report {

// The phases of a step's seconds that are the step over simulated links, and computing of it.
inline constexpr const char* kSimulatedPhase = "simulated";
inline constexpr const char* kSimulatedComputePhase = "simulated_compute";

// Events come in the order in which they happened.
class RunTotals {
 public:
  explicit RunTotals(const config::Recipe& recipe) : recipe_(recipe) {}  // outlives this

  void add(const events::StepEvent& event);
  void add(const events::EvalEvent& event);
  // So many steps are done, although the log may hold fewer: it lost some. Those count as steps of
  // mean time and bytes.
  void set_completed(int64_t steps) { completed_ = steps; }

  int64_t completed() const { return completed_; }
  int64_t lost() const { return completed_ - recorded_; }
  const LossMean& loss() const { return loss_; }
  // Means of the recorded steps, 0 where there are none.
  double tokens_per_second() const;
  double bytes_sent_a_step() const;
  double bytes_received_a_step() const;
  // Of all steps; 0 where links are not simulated.
  double simulated_seconds() const { return simulated_seconds_ * all_over_recorded(); }

  // Everything of the summary that the events tell; the caller adds what belongs to the model.
  events::Summary summary() const;

 private:
  double all_over_recorded() const;

  const config::Recipe& recipe_;
  int64_t completed_ = 0;
  int64_t recorded_ = 0;
  int64_t last_recorded_ = 0;  // the number of that step
  int64_t tokens_ = 0;
  double seconds_ = 0;
  double simulated_seconds_ = 0;
  double simulated_compute_seconds_ = 0;
  double bytes_sent_ = 0;
  double bytes_received_ = 0;
  LossMean loss_;
  std::map<std::string, double> val_loss_;
};

}  // namespace thinwire::report
