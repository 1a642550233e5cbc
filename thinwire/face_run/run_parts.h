// What training and joining make of what their callers give: callbacks and models.
#pragma once

#include <string_view>

#include "thinwire/base/mutex.h"
#include "thinwire/callbacks.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/own_model.h"
#include "thinwire/train/own_learner.h"

namespace thinwire {

// Passes a run's events and messages on, one at a time. Must be outlived by the callbacks.
class Callbacks final : public events::Listener {
 public:
  explicit Callbacks(const RunCallbacks& callbacks) : callbacks_(callbacks) {}

  // No progress, and messages to on_message. Must be outlived by this.
  events::Display display();

  void on_event(const events::StepEvent& event) override;
  void on_event(const events::EvalEvent& event) override;
  void on_event(const events::MessageEvent&) override {}  // the display gets it as well
  void on_event(const events::WorkerStep&) override {}
  void on_checkpoint(const events::CheckpointEvent& event) override;

 private:
  void on_message(std::string_view line);

  const RunCallbacks& callbacks_;
  Mutex calling_;
};

// The model refers to the one given, which must outlive it. Throws UsageError if `worker` is not
// set.
train::OwnModel inner_model(const OwnModel& model);

}  // namespace thinwire
