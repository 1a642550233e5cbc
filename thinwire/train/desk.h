// Where a worker hands in its part of what a run leaves behind: steps, evaluations, checkpoints.
#pragma once

#include <string>

#include "thinwire/train/checkpoint_meeting.h"
#include "thinwire/train/collector.h"

namespace thinwire::train {

// Thread-safe; nobody waits for other workers here. Steps count completed ones.
class Desk {
 public:
  virtual ~Desk() = default;

  // Throw Error when replicas that should agree do not, and when something cannot be written.
  virtual void add_step(int64_t step, int worker, const StepPart& part) = 0;
  virtual void add_evaluation(int64_t step, const std::string& name, int worker,
                              const EvalPart& part) = 0;
  virtual void add_checkpoint(int64_t step, int worker, const WorkerState& state) = 0;
  // Whether the run ends before this step (counted from 0) because somebody asked for it: the same
  // answer for every worker.
  virtual bool stops_before(int64_t step) = 0;
};

// The desk of the process that writes the run folder.
class FolderDesk final : public Desk {
 public:
  FolderDesk(Collector& collector, CheckpointMeeting& checkpoints)
      : collector_(collector), checkpoints_(checkpoints) {}

  void add_step(int64_t step, int worker, const StepPart& part) override {
    collector_.add_step(step, worker, part);
  }
  void add_evaluation(int64_t step, const std::string& name, int worker,
                      const EvalPart& part) override {
    collector_.add_evaluation(step, name, worker, part);
  }
  void add_checkpoint(int64_t step, int worker, const WorkerState& state) override {
    collector_.sync();
    if (checkpoints_.arrive(step, worker, state)) collector_.restart_clock();
  }
  bool stops_before(int64_t step) override { return collector_.stops_before(step); }

 private:
  Collector& collector_;
  CheckpointMeeting& checkpoints_;
};

}  // namespace thinwire::train
