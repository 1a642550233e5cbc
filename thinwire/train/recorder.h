// What a run leaves behind while it goes: the event log, TensorBoard files and the progress
// display, and the totals from which its summary is made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "thinwire/base/clock.h"
#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/events/tensorboard.h"

namespace thinwire::train {

// The phases of a step's seconds that are the step over simulated links, and computing of it.
inline constexpr const char* kSimulatedPhase = "simulated";
inline constexpr const char* kSimulatedComputePhase = "simulated_compute";

// Used by one thread at a time. All functions throw Error when the disk is full.
class Recorder {
 public:
  // Continues the log in `folder` after `resume_step` completed steps (0: a new run). Totals of the
  // steps before are read back from the log, so a summary is about the whole run.
  Recorder(const config::Recipe& recipe, const fs::path& folder, int64_t resume_step);

  // `event.step` counts completed steps. Fills in tokens_per_second and model_flops_per_second from
  // the time since the last step or restart_clock().
  void step(events::StepEvent event);
  void evaluation(int64_t step, const std::string& name, double loss);
  void message(int64_t step, const std::string& text);
  // Time from here on belongs to the next step: called after evaluations and checkpoints.
  void restart_clock() { since_ = monotonic_seconds(); }
  void sync() { log_.sync(); }

  // Everything of the summary that the steps tell; the caller adds what belongs to the model.
  events::Summary totals() const;

 private:
  void add(const events::StepEvent& event);
  void show(const events::StepEvent& event);

  const config::Recipe& recipe_;
  events::RunLog log_;
  std::unique_ptr<events::TensorBoardWriter> tensorboard_;
  events::Progress progress_;
  double flops_per_token_;
  double since_;
  int64_t steps_ = 0;
  int64_t tokens_ = 0;
  double seconds_ = 0;
  double simulated_seconds_ = 0;
  double simulated_compute_seconds_ = 0;
  double bytes_sent_ = 0;
  double bytes_received_ = 0;
  double smooth_loss_ = 0;  // exponential mean over about 20 steps, for the summary and the display
  std::map<std::string, double> val_loss_;
};

}  // namespace thinwire::train
