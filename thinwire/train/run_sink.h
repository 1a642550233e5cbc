// Where a worker hands in its part of what a run records: steps, evaluations, checkpoints.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "thinwire/base/mutex.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/train/collector.h"

namespace thinwire::train {

struct Decided;  // train/round_source.h

// Agreement on the point at which all workers of a run do something that was asked for during
// training, e.g. stop or write a checkpoint: a point that none of them has passed yet. Points are
// numbered in ascending order, and every worker passes them in order.

// What the workers of one process know about it. Thread-safe.
class AgreedPoint {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  // A worker has reached `point`. Returns the agreed point, or kNone if there is none yet. Returns
  // nullopt if the worker may not pass before that is known: it must call again once may_pass() is
  // true.
  std::optional<int64_t> reach(int64_t point);
  // Takes no lock.
  bool may_pass(int64_t point) const { return point <= limit_; }

  // If all workers are in this process: agrees on the first point that none has passed.
  void settle_here();
  // If they are in several processes: returns the latest point that a worker of this process may
  // have passed. Until settle() they pass at most `margin` points after it. Forgets the previous
  // point.
  int64_t promise(int64_t margin);
  void settle(int64_t point);
  // All have reached `point`: if it is the agreed one, the next agreement can begin.
  void all_reached(int64_t point);

 private:
  Mutex mutex_;
  int64_t latest_ GUARDED_BY(mutex_) = -1;
  int64_t agreed_ GUARDED_BY(mutex_) = kNone;
  std::atomic<int64_t> limit_ = kNone;  // the last point that may be passed
};

// The points at which a run can stop, in the order in which every worker reaches them: before each
// forward pass of the evaluation after `completed` steps, and before the step that follows it.
constexpr int64_t kPointsPerStep = int64_t{1} << 17;
constexpr int64_t point_before_pass(int64_t completed, int64_t pass) {
  return completed * kPointsPerStep + std::min(pass, kPointsPerStep - 2);
}
constexpr int64_t point_before_step(int64_t completed) {
  return completed * kPointsPerStep + kPointsPerStep - 1;
}

// Thread-safe. No call waits for other workers, except briefly if some are in other processes and
// the run is being stopped. Step numbers count completed steps.
class RunSink {
 public:
  virtual ~RunSink() = default;

  // These throw Error if replicas that should agree do not, or if something cannot be written.
  virtual void add_step(int64_t step, int worker, const StepPart& part) = 0;
  virtual void add_evaluation(int64_t step, const std::string& name, int worker,
                              const EvalPart& part) = 0;
  virtual void add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) = 0;
  // What the evaluations up to `step` steps have decided, where neither the workers nor the sink
  // decide that (RoundSource::decided).
  virtual void decided(int64_t /*step*/, const Decided& /*decided*/) {}
  // Shows how much of a validation set worker 0 has evaluated.
  virtual void show_evaluation(int64_t step, const std::string& name, double fraction) = 0;
  // Whether the run ends before this point because it was asked to: the same answer for every
  // worker.
  virtual bool stops_before(int64_t point) = 0;
  // Whether all workers write a checkpoint before the step after `completed`, because
  // checkpoint.minutes have passed since the last one: the same answer for every worker. Each
  // worker asks before every step.
  virtual bool checkpoint_due(int64_t completed) = 0;

  // For the sink of the process that writes: whether checkpoint.minutes have passed since the last
  // checkpoint, and the steps of the newest one written; -1: none.
  virtual bool checkpoint_wanted() const { return false; }
  virtual int64_t checkpoint_written() const { return -1; }
};

// The sink of the process that writes the run folder.
class FolderSink final : public RunSink {
 public:
  // stop: set from outside to end the run; may be null. checkpoint_minutes 0: no checkpoints by
  // time.
  FolderSink(Collector& collector, checkpoint::CheckpointCollector& checkpoints,
             const std::atomic<bool>* stop, double checkpoint_minutes);
  // From here on the best checkpoint by evaluations of this set is kept. best: what an existing
  // checkpoint has reached. Must be called before workers use the sink.
  void keep_best(const std::string& set, const checkpoint::BestLoss& best);

  void add_step(int64_t step, int worker, const StepPart& part) override;
  void add_evaluation(int64_t step, const std::string& name, int worker,
                      const EvalPart& part) override;
  void add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) override;
  void show_evaluation(int64_t step, const std::string& name, double fraction) override;
  bool stops_before(int64_t point) override;
  bool checkpoint_due(int64_t completed) override;
  bool checkpoint_wanted() const override;
  int64_t checkpoint_written() const override { return written_; }

 private:
  Collector& collector_;
  checkpoint::CheckpointCollector& checkpoints_;
  const std::atomic<bool>* stop_;
  const double interval_s_;
  AgreedPoint stop_point_;
  AgreedPoint checkpoint_step_;
  std::atomic<double> since_;  // when the last checkpoint was written
  std::atomic<int64_t> written_ = -1;
  std::string watched_;  // the set that decides the best checkpoint; empty: none is kept
  Mutex best_mutex_;
  checkpoint::BestLoss best_ GUARDED_BY(best_mutex_);
};

}  // namespace thinwire::train
