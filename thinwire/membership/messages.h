// The inputs of a coordinator and the actions it asks for. Its host checks who sent each network
// message, turns it into an input, and carries out the actions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// --- from members; each also shows that the member is present

// A process that takes part, or wants to, has started, restarted or come back.
struct Hello {
  PublicKey key;
  std::optional<Position> position;  // of its replica; none: it has nothing
  double down_bytes_s = 0;           // as measured; 0: not known
};
// Sent at least every report_s, and after each record that the member applied.
struct Report {
  int member = 0;
  std::optional<Position> position;  // none: it has no replica (yet)
  // The member's digest of weights after the last round it applied, if any.
  std::optional<AgreedDigest> digest;
};
// A contribution; the member has handed its bytes to the store.
struct Offer {
  int member = 0;
  uint64_t round = 0;
  uint32_t epoch = 0;
  uint32_t fragment = 0;
  Sha256 payload;
  uint64_t bytes = 0;
  double seconds = 0;  // spent computing the round's rows; 0: not measured
};
// The member leaves in an orderly way.
struct Goodbye {
  int member = 0;
};
// The member has made a snapshot, and the store has acknowledged it.
struct SnapshotReady {
  Snapshot snapshot;
  AgreedDigest digest;  // of the same state
  Sha256 record;        // hash of record snapshot.sequence, as the member has it
};
// Records that the member has: their bytes as stored, ascending without a gap.
struct Supply {
  int member = 0;
  std::vector<Bytes> records;
};
// Reported by whoever checks contributions: a payload does not decode, is out of bounds, ...
struct Misconduct {
  int member = 0;
  std::string what;
};

// --- from the store

// These bytes are stored safely, and may count.
struct Acknowledged {
  Sha256 payload;
  int member = -1;  // whose offer of them; -1: anybody's
};
// What a member offered was looked at and must not count: an offence. Its operation is not waited
// for any more.
struct PayloadRefused {
  Offer offer;
  std::string why;  // text for people
};
// The store is connected (again), and `last` is its last record. Actions are carried out on this
// connection or not at all: nothing sent before the connection was lost may arrive after this.
struct StoreConnected {
  uint64_t last = 0;
};
// The store says that a connection of whoever has this key has ended. It may already be back.
struct Departed {
  PublicKey key;
};
// The store is gone. The coordinator asks for nothing until it is back.
struct StoreDisconnected {};
// The next record of the stream.
struct RecordRead {
  Bytes record;
};

using Input =
    std::variant<Hello, Report, Offer, Goodbye, SnapshotReady, Supply, Misconduct, Acknowledged,
                 PayloadRefused, StoreConnected, Departed, StoreDisconnected, RecordRead>;

// --- actions

// To the store: append this as record `expected_last` + 1 if `expected_last` is the last one. The
// only answer is the record itself in the stream.
struct Append {
  uint64_t expected_last = 0;
  Bytes record;
};
// Ask whether the store holds these bytes. It answers with Acknowledged, once it does.
struct AskStored {
  Sha256 payload;
};
// The stream contradicts what was read before: read it again from the first record.
struct Reread {};
// The member has records that the store lost: ask it to supply those from `first` on.
struct AskRecords {
  int member = 0;
  uint64_t first = 0;
};
// Ask the member to make a snapshot of its current state and then send SnapshotReady.
struct AskSnapshot {
  int member = 0;
};
// The request of `key` is refused; `why` is text for people.
struct Refuse {
  PublicKey key;
  std::string why;
};

using Action = std::variant<Append, AskStored, Reread, AskRecords, AskSnapshot, Refuse>;

}  // namespace thinwire::membership
