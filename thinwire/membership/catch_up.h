// How a member comes to where the run is: through the rounds it missed, or by a snapshot and the
// rounds since. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

struct CatchUp {
  std::optional<uint64_t> snapshot;  // none: replay from where it is
  uint64_t bytes = 0;                // to receive
};

// The one with fewer bytes to receive; at equal ones replay. `position`: what the member has, null
// for nothing; it must lie on the ledger's chain, else pass null.
CatchUp plan_catch_up(const State& state, const Position* position);

// Why a link that brings `down_bytes_s` (0: not known) cannot catch up with a run whose rounds take
// `round_s` (0: not known); empty: it can.
std::string too_slow(const State& state, const CatchUp& plan, double down_bytes_s, double round_s);

}  // namespace thinwire::membership
