// What the workers know about each other's speeds, if the recipe divides rows by speed (sync.shares
// = "speed"). At the end of every round of sync_every steps each worker sends how many rows per
// second it computed in that round, before its pseudo-gradient. All collect these speeds one round
// later, so that no worker waits for them, and divide the following round by them.
// docs/methods/members.md.
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
