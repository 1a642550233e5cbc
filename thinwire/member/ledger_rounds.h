// A worker's rounds from the ledger (train/round_source.h): who takes part, with which rows, and at
// which learning rate. Waits for rounds that are not open yet.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/config/recipe.h"
#include "thinwire/member/committed_communicator.h"
#include "thinwire/member/follower.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/train/round_source.h"

namespace thinwire::member {

struct LedgerPace {
  int64_t steps = 0;       // of the run
  double row_seconds = 0;  // minimum time per row of this member in a step
};

// Everything referred to must outlive it. Its functions throw train::Aborted once the replica has
// to end (Follower).
std::unique_ptr<train::RoundSource> ledger_rounds(uint64_t run, Follower& follower,
                                                  CommittedCommunicator& communicator,
                                                  const membership::RecipePlan& plan,
                                                  const LedgerPace& pace);

}  // namespace thinwire::member
