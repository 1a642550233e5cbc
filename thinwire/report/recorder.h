// What a run records: the event log, TensorBoard files and the progress display, and the totals
// from which its summary is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/base/clock.h"
#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/report/run_totals.h"

namespace thinwire::report {

struct RecorderOptions {
  // Receives everything, including the log of earlier steps; may be null. Must outlive the
  // recorder.
  events::Listener* listener = nullptr;
  // Tells users over which rows evaluations are, if not over all: "over ...".
  std::string rows = {};
  events::Display display = {};
};

// Used by one thread at a time. All functions throw Error when the disk is full.
class Recorder {
 public:
  // Continues the log in `folder` after `resume_step` completed steps (0: a new run). Totals of the
  // earlier steps are read from the log, so a summary covers the whole run; a notice says if the
  // log was cut short. The recipe must outlive this.
  Recorder(const config::Recipe& recipe, const fs::path& folder, int64_t resume_step,
           RecorderOptions options = {});

  // `event.step` counts completed steps. Fills in tokens_per_second and model_flops_per_second from
  // the time since the last step or restart_clock().
  void step(events::StepEvent event);
  void evaluation(int64_t step, const std::string& name, double loss);
  // One worker's part of a step, before the step itself; it is not in the log.
  void worker_step(const events::WorkerStep& part) {
    if (listener_ != nullptr) listener_->on_event(part);
  }
  // A task's metric, named "task.metric".
  void score(int64_t step, const std::string& name, double value);
  // Shows how much of an evaluation is done: on a terminal at once, elsewhere every ten seconds.
  void show_evaluation(int64_t step, const std::string& name, double fraction);
  void message(int64_t step, const std::string& text);
  // A checkpoint after `step` steps is on disk. Not in the log.
  void checkpoint(int64_t step);
  // Time from here on counts as the next step's: called after evaluations and checkpoints.
  void restart_clock() { since_ = monotonic_seconds(); }
  // Returns when everything recorded is on disk.
  void sync();

  const RunTotals& totals() const { return totals_; }

 private:
  void read_back(const events::RunHistory& history, int64_t resume_step);
  void show(const events::StepEvent& event);
  void record(const events::EvalEvent& event);
  // To the log, and to the listener.
  template <typename Event>
  void write(const Event& event) {
    log_.write(event);
    if (listener_ != nullptr) listener_->on_event(event);
  }

  const fs::path folder_;
  const fs::path file_;     // of the log
  const std::string rows_;  // after a space, or empty
  events::RunLog log_;
  events::Listener* listener_;
  const events::MessageSink print_;
  std::unique_ptr<Curves> curves_;  // null: no TensorBoard files
  events::Progress progress_;
  RunTotals totals_;
  const bool padded_;            // rows of records are, and the model computes their padding, too
  double evaluation_shown_ = 0;  // when it was last shown
  double flops_per_token_;
  double since_;
};

}  // namespace thinwire::report
