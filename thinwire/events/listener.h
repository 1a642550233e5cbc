// Receives what a run records while it is recorded: the events of events.jsonl, and each worker's
// own part of every step, of which the log keeps only the mean over the workers.
#pragma once

#include <cstdint>

#include "thinwire/events/run_log.h"

namespace thinwire::events {

// One worker's part of one step; seconds by the worker's own clock.
struct WorkerStep {
  int worker = 0;
  int64_t step = 0;       // completed steps, this one included
  double compute_s = 0;   // reading rows, forward and backward passes, updating weights
  double exchange_s = 0;  // sending, and waiting for the others
};

// Called on the run's own threads, one call at a time, so implementations return quickly. Events
// that were read back from the log of a resumed run come first; they have a time above 0.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(const StepEvent& event) = 0;
  virtual void on_event(const EvalEvent& event) = 0;
  virtual void on_event(const MessageEvent& event) = 0;
  virtual void on_event(const WorkerStep& part) = 0;
};

}  // namespace thinwire::events
