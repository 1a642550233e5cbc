// What a run records: the event log, TensorBoard files and the progress display, and the totals
// from which its summary is made.
#pragma once

#include <cstdint>
#include <deque>
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

namespace thinwire::report {

// The training loss that users see: the mean over the last tenth of a run's steps, at most 50, so
// that it depends neither on a single batch nor on a long outdated model. It depends only on the
// losses of the steps, so an interrupted run gives the same value.
class LossMean {
 public:
  void add(double loss);
  // 0 before the first step.
  double value() const;
  // Number of steps in the mean.
  int64_t steps() const;

 private:
  static constexpr int64_t kShare = 10;
  static constexpr int64_t kMaxSteps = 50;

  std::deque<double> last_;
  int64_t added_ = 0;
};

// The phases of a step under which its time over simulated links, and the computation in that time,
// are logged.
inline constexpr const char* kSimulatedPhase = "simulated";
inline constexpr const char* kSimulatedComputePhase = "simulated_compute";

// Events must be given in the order in which they happened.
class RunTotals {
 public:
  explicit RunTotals(const config::Recipe& recipe) : recipe_(recipe) {}  // must outlive this

  void add(const events::StepEvent& event);
  void add(const events::EvalEvent& event);
  // Sets the number of completed steps; the log may have lost some of them. Lost steps are assumed
  // to have the mean time and bytes.
  void set_completed(int64_t steps) { completed_ = steps; }

  int64_t completed() const { return completed_; }
  int64_t lost() const { return completed_ - recorded_; }
  const LossMean& loss() const { return loss_; }
  // Means over the recorded steps, 0 if there are none.
  double tokens_per_second() const;
  double bytes_sent_per_step() const;
  double bytes_received_per_step() const;
  // Over all steps; 0 if links are not simulated.
  double simulated_seconds() const { return simulated_seconds_ * all_over_recorded(); }

  // Everything in the summary that follows from the events; the caller adds what belongs to the
  // model.
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
  std::map<std::string, double> scores_;
};

// A run's curves for TensorBoard. docs/formats.md lists the tags.

// Used by one thread. All functions throw Error when the disk is full.
class Curves {
 public:
  // Begins a new file in `folder`, which replaces what earlier files say about steps after
  // `resume_step`. Steps up to there that they lack (because of an interruption, or because there
  // are no files) are written from `history`, so that TensorBoard shows every step once.
  Curves(const fs::path& folder, int64_t resume_step, const events::RunHistory& history);

  void add(const events::StepEvent& event, double mean_loss);
  void add(const events::EvalEvent& event);
  // Returns when everything is on disk.
  void sync() { writer_.sync(); }

 private:
  const int64_t first_step_;  // of the new file
  events::TensorBoardWriter writer_;
};

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
