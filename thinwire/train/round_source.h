// Where a worker gets its rounds from: the recipe, or whoever coordinates the run. A round is data
// (base/round.h): who takes part, which rows each member takes and with what weight, at what rate.
// A worker trains by what it is given and works out none of it.
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

// One worker's; used by its thread.
class RoundSource {
 public:
  // Rounds by training step, for another thread. Outlives the source.
  using Plan = std::function<Round(int64_t step)>;

  virtual ~RoundSource() = default;

  // Once state() is that of a checkpoint after `completed` steps, or new where there is none.
  virtual void restored(int64_t /*completed*/) {}
  // The round of a training step. Steps that were trained have the round they were trained by;
  // those to come have the one that is planned now.
  virtual Round at(int64_t step) const = 0;
  // The plan of now.
  virtual Plan plan() const = 0;
  // This worker computed the gradients of `rows` rows; before the strategy's after_step.
  virtual void computed(const Round& /*round*/, uint64_t /*rows*/, double /*seconds*/) {}
  // The round's step is complete; after the strategy's after_step. Whether the plan changed for the
  // steps to come.
  virtual Result<bool> completed(const Round& /*round*/) { return false; }
  // What checkpoints hold of it. The spans stay valid.
  virtual std::vector<StateTensor> state() { return {}; }
};

// Makes a worker's source. All that is passed outlives it.
using MakeRounds = std::function<std::unique_ptr<RoundSource>(
    const config::Recipe& recipe, uint64_t run, transport::Communicator& communicator,
    PermitHold& permits)>;

// The recipe's: train.workers members with ids from 0 on, whose rows follow from the recipe
// (open_round.h) and, with sync.shares = "speed", from what they measure.
std::unique_ptr<RoundSource> recipe_rounds(const config::Recipe& recipe, uint64_t run,
                                           transport::Communicator& communicator,
                                           PermitHold& permits);

}  // namespace thinwire::train
