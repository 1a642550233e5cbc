// What a coordinator has heard and the ledger does not say yet. Lost when it ends: members say all
// of it again to the next one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "thinwire/membership/messages.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// Times are in seconds of the caller's clock.
struct Seen {
  double at = 0;                     // when it was last heard
  bool reported = false;             // its position is known, since the store was last connected
  std::optional<Position> position;  // on the ledger's chain; none: it has nothing of use
  std::optional<AgreedDigest> digest;
  double down_bytes_s = 0;
  bool knocked = false;   // Hello since the last decision about it
  bool leaves = false;    // Goodbye since its last Hello
  uint64_t offences = 0;  // not recorded yet
  std::optional<SnapshotReady> snapshot;
};

struct Arrival {
  Offer offer;
  double at = 0;  // when it was announced, then when it was known to be safe
  bool stored = false;
};

struct Observed {
  std::map<int, Seen> members;
  std::map<PublicKey, Hello> newcomers;
  std::map<Overdue, Arrival> offers;
  double front_since = 0;  // when the oldest open round became that
  double round_s = 0;      // how long rounds have taken lately; 0: not known
};

}  // namespace thinwire::membership
