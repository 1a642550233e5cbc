// Where a worker gets its rounds from: the recipe, or the run's coordinator. A round is data
// (base/round.h): who takes part, which rows each member takes, with what weight, and the learning
// rate. A worker trains as its rounds say and computes none of this itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/model/model.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

// The round of a training step.

// The part of [0, count) for member `index` of `members`.
RowRange share(uint64_t count, int index, int members);

// The part of [0, count) that member `id` takes if the roster divides it evenly; empty if the
// roster does not have it.
RowRange share_of(const Round& round, int id, uint64_t count);

// Which rows each of `members` takes at `step`, the learning rate, and whether members exchange
// after it: a function of the recipe and of the members' measured speeds in rows per second
// (share_rows; none: shares are equal).
Round open_round(const config::Recipe& recipe, uint64_t run, int members, int64_t step,
                 std::span<const float> speeds = {});

// Watches the weights from which the members of a round start, in a worker that follows the run.

// Used by the worker's thread.
class RoundObserver {
 public:
  virtual ~RoundObserver() = default;
  // A training step is about to begin. Whether observe() is to be called.
  virtual bool wants(const Round& round) = 0;
  // The model has the weights on which replicas agree, which must not be changed.
  virtual void observe(const Round& round, model::Model& model) = 0;
};

// What the evaluations of a run so far have decided (eval.patience, checkpoint.best).
struct Decided {
  checkpoint::BestLoss best;
  bool ends = false;     // the run ends here
  bool stopped = false;  // the worker was told to stop before it was decided
};

// Belongs to one worker and is used by that worker's thread.
class RoundSource {
 public:
  // Gives the round of a training step, for use on another thread. Outlives the source.
  using Plan = std::function<Round(int64_t step)>;

  virtual ~RoundSource() = default;

  // Called once state() holds that of a checkpoint after `completed` steps, or is new if there is
  // no checkpoint.
  virtual void restored(int64_t /*completed*/) {}
  // The round of a training step. A step that has been trained has the round it was trained with; a
  // future step has the round that is planned now.
  virtual Round at(int64_t step) const = 0;
  // The current plan.
  virtual Plan plan() const = 0;
  // The worker's run ends: a plan that waits for a round to open must return, with any round.
  virtual void stop_waiting() {}
  // This worker computed the gradients of `rows` rows. Called before the strategy's after_step.
  virtual void computed(const Round& /*round*/, uint64_t /*rows*/, double /*seconds*/) {}
  // The round's step is complete. Called after the strategy's after_step. Returns whether the plan
  // for future steps changed.
  virtual Result<bool> completed(const Round& /*round*/) { return false; }
  // What evaluations up to `completed` steps have decided, where that is not the workers' own
  // decision (then nothing); waits for the one after these steps.
  virtual std::optional<Decided> decided(int64_t /*completed*/) { return std::nullopt; }
  // The state that checkpoints store. The spans stay valid.
  virtual std::vector<StateTensor> state() { return {}; }
};

// Makes a worker's source. All arguments must outlive the source.
using MakeRounds = std::function<std::unique_ptr<RoundSource>(
    const config::Recipe& recipe, uint64_t run, transport::Communicator& communicator,
    PermitHold& permits)>;

// The rounds of a recipe: train.workers members with ids from 0 on. Their rows follow from the
// recipe (open_round) and, with sync.shares = "speed", from what the members measure.
std::unique_ptr<RoundSource> recipe_rounds(const config::Recipe& recipe, uint64_t run,
                                           transport::Communicator& communicator,
                                           PermitHold& permits);

// What the workers know about each other's speeds, if the recipe divides rows by speed (sync.shares
// = "speed"). At the end of every round (method::speeds_every) each worker sends how many rows per
// second it computed in that round, before what the method exchanges. All collect these speeds one
// round later, so that no worker waits for them, and divide the following round by them.
// docs/members.md.
class MeasuredSpeeds {
 public:
  // All arguments must outlive it.
  MeasuredSpeeds(const config::Recipe& recipe, transport::Communicator& communicator,
                 PermitHold& permits);

  // Rows per second of each member, 0 if unknown, the same on all; empty if shares are equal.
  std::span<const float> speeds() const { return speeds_; }
  // Called once state() is that of a checkpoint after `completed` steps: sends again the speed that
  // was in flight. round_at: the round of an earlier step.
  void restored(int64_t completed, const std::function<Round(int64_t step)>& round_at);
  // Called before the strategy's after_step: this worker computed the gradients of `rows` rows.
  void computed(const Round& round, uint64_t rows, double seconds);
  // Called after the strategy's after_step. Returns whether speeds() changed, from the next step
  // on.
  Result<bool> collect(const Round& round);

  // Empty if shares are equal.
  std::vector<StateTensor> state();

 private:
  // After the round's step; only active workers have a speed.
  void send(const Round& round);
  // The key of the exchange after `completed` steps.
  static transport::Key key(uint64_t run, int64_t completed);

  const config::Recipe& recipe_;
  const int64_t every_;
  transport::Communicator& communicator_;
  PermitHold& permits_;
  std::vector<float> speeds_;
  std::vector<float> measured_;  // rows and seconds of this round
  std::vector<float> sent_;      // this worker's speed in the last round
};

}  // namespace thinwire::train
