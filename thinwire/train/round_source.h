// Where a worker gets its rounds from: the recipe, or the run's coordinator. A round is data
// (base/round.h): who takes part, which rows each member takes, with what weight, and the learning
// rate. A worker trains as its rounds say and computes none of this itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

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
  // The state that checkpoints store. The spans stay valid.
  virtual std::vector<StateTensor> state() { return {}; }
};

// Makes a worker's source. All arguments must outlive the source.
using MakeRounds = std::function<std::unique_ptr<RoundSource>(
    const config::Recipe& recipe, uint64_t run, transport::Communicator& communicator,
    PermitHold& permits)>;

// The rounds of a recipe: train.workers members with ids from 0 on. Their rows follow from the
// recipe (open_round.h) and, with sync.shares = "speed", from what the members measure.
std::unique_ptr<RoundSource> recipe_rounds(const config::Recipe& recipe, uint64_t run,
                                           transport::Communicator& communicator,
                                           PermitHold& permits);

}  // namespace thinwire::train
