// What the workers know of each other's speed, where the recipe divides rows by it (sync.shares =
// "speed"). At the end of every round of sync_every steps each offers how many rows a second it
// computed in it, before its offer of weights goes out; all collect these a round later, so that
// nobody waits for them, and the next round is divided by them. docs/methods/members.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

class MeasuredSpeeds {
 public:
  // Everything outlives it.
  MeasuredSpeeds(const config::Recipe& recipe, transport::Communicator& communicator,
                 SlotHold& slots);

  // Rows a second of each member, 0 where not known, the same on all; empty where shares are even.
  std::span<const float> speeds() const { return speeds_; }
  // Once state() is that of a checkpoint after `completed` steps: offers again what was in flight.
  // round_at: the round of an earlier step.
  void restored(int64_t completed, const std::function<Round(int64_t step)>& round_at);
  // This worker computed the gradients of `rows` rows; before the strategy's after_step.
  void computed(const Round& round, uint64_t rows, double seconds);
  // After the strategy's after_step. Whether speeds() changed, from the next step on.
  Result<bool> collect(const Round& round);

  // None where shares are even.
  std::vector<StateTensor> state();

 private:
  // After the round's step; only active workers have a speed.
  void offer(const Round& round);
  // Of what was offered after `completed` steps.
  static transport::Key key(uint64_t run, int64_t completed);

  const config::Recipe& recipe_;
  const int64_t every_;
  transport::Communicator& communicator_;
  SlotHold& slots_;
  std::vector<float> speeds_;
  std::vector<float> measured_;  // rows and seconds of this round
  std::vector<float> offered_;   // this worker's speed in the last round
};

}  // namespace thinwire::train
