// What a coordinator hears and what it wants done. Whoever runs one turns what comes over the
// network into inputs, after checking who sent it, and carries out the actions.
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

// --- from members; each also says that its member is there

// A process that takes part, or wants to, has (re)started or come back.
struct Hello {
  PublicKey key;
  std::optional<Position> position;  // of the replica it has; none: it has nothing
  double down_bytes_s = 0;           // as measured; 0: not known
};
// Every report_s at least, and after each record that it applied.
struct Report {
  int member = 0;
  std::optional<Position> position;  // none: it has no replica (yet)
  // Of the last round it applied, if any: its digest of weights and consensus state.
  std::optional<AgreedDigest> digest;
};
// A contribution, whose bytes the member has handed to the store.
struct Offer {
  int member = 0;
  uint64_t round = 0;
  uint32_t epoch = 0;
  uint32_t fragment = 0;
  Sha256 payload;
  uint64_t bytes = 0;
  double seconds = 0;  // spent computing the round's rows; 0: not measured
};
// It leaves in order.
struct Goodbye {
  int member = 0;
};
// A snapshot that the member has made; the store has acknowledged it.
struct SnapshotReady {
  Snapshot snapshot;
  AgreedDigest digest;  // of the same state
};
// It has these records. Bytes as they were stored, ascending without a gap.
struct Supply {
  int member = 0;
  std::vector<Bytes> records;
};
// Found by whoever checks contributions: a payload that does not decode, is out of bounds, ...
struct Misconduct {
  int member = 0;
  std::string what;
};

// --- from the store

// These bytes are safe.
struct Acknowledged {
  Sha256 payload;
};
// The connection to the store is there (again), and this is its last record. Actions are carried
// out on this connection or not at all: what was sent before the store was away must not arrive
// behind it.
struct StoreConnected {
  uint64_t last = 0;
};
// It is gone. Nothing is wanted until it is back.
struct StoreDisconnected {};
// The next record of the stream.
struct RecordRead {
  Bytes record;
};

using Input = std::variant<Hello, Report, Offer, Goodbye, SnapshotReady, Supply, Misconduct,
                           Acknowledged, StoreConnected, StoreDisconnected, RecordRead>;

// --- actions

// To the store: record `expected_last` + 1, if `expected_last` is its last one. There is no answer
// but the record itself in the stream.
struct Append {
  uint64_t expected_last = 0;
  Bytes record;
};
// Whether the store holds these bytes; Acknowledged is the answer, once it does.
struct AskStored {
  Sha256 payload;
};
// The stream contradicts what was read of it before: it is to be read again, from the first record.
struct Reread {};
// The member has records that the store lost: it is to supply those from `first` on.
struct AskRecords {
  int member = 0;
  uint64_t first = 0;
};
// The member is to make a snapshot of the state it has, and say so (SnapshotReady).
struct AskSnapshot {
  int member = 0;
};
// What `key` wanted is not done, and why: for people.
struct Refuse {
  PublicKey key;
  std::string why;
};

using Action = std::variant<Append, AskStored, Reread, AskRecords, AskSnapshot, Refuse>;

}  // namespace thinwire::membership
