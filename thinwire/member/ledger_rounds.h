// A worker's rounds as the ledger has them (train/round_source.h): who takes part, with which rows,
// and at which learning rate. A round is waited for until it is open.
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
  double row_seconds = 0;  // a step takes at least so long for each of this member's rows
};

// Everything referred to must outlive it. Its functions throw train::Aborted once the replica is to
// end (Follower).
std::unique_ptr<train::RoundSource> ledger_rounds(uint64_t run, Follower& follower,
                                                  CommittedCommunicator& communicator,
                                                  const membership::RecipePlan& plan,
                                                  const LedgerPace& pace);

}  // namespace thinwire::member
