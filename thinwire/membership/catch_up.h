// How a member catches up with the run: by replaying the rounds it missed, or from a snapshot and
// the rounds since. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

struct CatchUp {
  std::optional<uint64_t> snapshot;  // none: replay from the member's position
  uint64_t bytes = 0;                // to receive
};

// Chooses the one with fewer bytes to receive; replay if they are equal. `position` is how far the
// member has got, or null if it has nothing; pass null too if it is not on the ledger's chain.
CatchUp plan_catch_up(const State& state, const Position* position);

// Why a link that receives `down_bytes_s` bytes a second (0: not known) cannot catch up with a run
// whose rounds take `round_s` seconds (0: not known). Empty if it can, or if that is not known.
std::string too_slow(const State& state, const CatchUp& plan, double down_bytes_s, double round_s);

}  // namespace thinwire::membership
