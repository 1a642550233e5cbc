// What a coordinator has received that is not in the ledger yet. It is lost when the coordinator
// ends: members send all of it again to the next one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "thinwire/membership/messages.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// Times are seconds of the caller's clock.
// Bytes that a round of the run produces, and how long it takes: of one with steps, and those after
// it without. 0 seconds: not known.
struct Pace {
  double bytes = 0;
  double seconds = 0;
};

struct Seen {
  // When the member's last message arrived, or since when one could: since this coordinator or the
  // store's connection is there.
  double at = 0;
  double forgiven_s = 0;             // by how much `at` is later than that (Coordinator::hear)
  bool heard = false;                // a message since the last record of its phase
  bool reported = false;             // its position, since the store was last connected
  std::optional<Position> position;  // on the ledger's chain; none: it has nothing usable
  std::optional<AgreedDigest> digest;
  double down_bytes_s = 0;
  uint64_t own_rows = 0;              // as its last JoinRequest says
  bool departed = false;              // its connection has ended since its last message
  bool join_requested = false;        // a JoinRequest since the last decision about it
  bool behind = false;                // likewise, with a replica from before the last closing
  bool leaves = false;                // a LeaveNotice since its last JoinRequest
  bool dismissed = false;             // it may no longer take part
  std::vector<OffenceKind> offences;  // not recorded yet
  std::optional<SnapshotReady> snapshot;
};

struct Arrival {
  Offer offer;
  double at = 0;  // when it was announced; once stored, when that became known
  bool stored = false;
  bool refused = false;  // it must not count (PayloadRefused)
};

// A member needs what the store has lost.
struct Lack {
  double since = 0;  // when it first said so, at the position where it still is
  double heard = 0;
  std::optional<Position> position;
  bool lasts = false;  // nobody has stored that again: only a newer snapshot helps
};

// An evaluation that decides something, which the ledger does not have yet.
struct DueEvaluation {
  Opening last;                // the round after which it is made
  std::map<int, Loss> losses;  // of members of its roster
  double first_at = 0;         // when the first of them arrived

  uint64_t step() const { return last.first_step + last.steps.size(); }
};

struct Observed {
  std::map<int, Seen> members;
  std::map<PublicKey, JoinRequest> newcomers;
  std::map<Overdue, Arrival> offers;
  std::map<Overdue, Offer> early;  // for rounds that may open with the next record
  std::map<int, Lack> lacks;       // by member
  std::optional<DueEvaluation> evaluation;
  double heard_at = 0;     // when any member's last message arrived, as Seen::at
  double front_since = 0;  // when the oldest open round became the oldest
  double round_s = 0;      // how long the last round took; 0: not known
  Pace pace = {};          // of the last round with steps, and those after it without
};

}  // namespace thinwire::membership
