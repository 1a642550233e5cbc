// The inputs of a coordinator and the actions it asks for. Its host checks who sent each network
// message, turns it into an input, and carries out the actions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/wire.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// The topics of a courier's statements: what members say to all, what they say to coordinators
// alone, and what coordinators say to all; and the stream of the ledger.
inline constexpr const char* kMembersTopic = "member";
inline constexpr const char* kAnnouncementsTopic = "announcement";
inline constexpr const char* kCoordinatorsTopic = "coordinator";
inline constexpr const char* kLedgerStream = "ledger";

// --- from members; each also shows that the member is present

// Asks to take part: a member's process has started, restarted or returned.
struct JoinRequest {
  PublicKey key;
  std::optional<Position> position;  // of its replica; none: it has nothing
  double down_bytes_s = 0;           // as measured; 0: not known
  uint64_t own_rows = 0;             // of its own text (data.own); 0: it has none
};
// Sent at least every report_s and after each round; while the member catches up, also after each
// record.
struct Report {
  int member = 0;
  std::optional<Position> position;  // none: it has no replica (yet)
  // The member's digest of weights after the last round it applied, if any.
  std::optional<AgreedDigest> digest;
};
// What a contribution has cost its member. 0: not known.
struct Spent {
  double seconds = 0;  // computing its rows
  double joules = 0;   // of energy
  double grams = 0;    // of CO2, by which that was made
  Spent& operator+=(const Spent& more) {
    seconds += more.seconds;
    joules += more.joules;
    grams += more.grams;
    return *this;
  }
  bool operator==(const Spent&) const = default;
};
// A contribution, whose bytes the member has stored.
struct Offer {
  int member = 0;
  uint64_t round = 0;
  uint32_t epoch = 0;
  uint32_t fragment = 0;
  Sha256 payload;
  uint64_t bytes = 0;
  Spent spent = {};  // in the round so far
};
// What the member will offer, said before anybody can read it in the store: the order of these
// decides who copied from whom.
struct Announcement {
  Offer offer;
};
// The loss over the member's own rows: of training in the steps of a round, the last of which is
// the `step`-th, or of an evaluation after `step` steps. It is displayed; those on Options::watch
// decide when the run ends and which weights are its best, and are said until that is recorded.
struct Loss {
  static constexpr const char* kTraining = "";
  int member = 0;
  uint64_t step = 0;
  std::string set;  // kTraining, or the name of a validation set, or of a task's metric
  double sum = 0;   // nats, over `tokens` tokens; of a metric over its items
  uint64_t tokens = 0;
  double mean() const { return sum / static_cast<double>(tokens); }
};
// The member leaves cleanly.
struct LeaveNotice {
  int member = 0;
};
// The member has made a snapshot, and the store has acknowledged it.
struct SnapshotReady {
  Snapshot snapshot;
  AgreedDigest digest;  // of the same state
  Sha256 record;        // hash of record snapshot.sequence, as the member has it
};
// Records that the member has, ascending without a gap, as the messages that they are in the stream
// (ledger.h). The parts of one record may come in several of these.
struct Supply {
  int member = 0;  // or AskRecords::kStrangers
  std::vector<Bytes> messages;
};
// Reported by the code that checks contributions: a payload does not decode, is out of bounds, ...
struct Misconduct {
  int member = 0;
  std::string what;
};

// Also from coordinators: the author needs this payload, which the store has lost. The member that
// offered it stores it again.
struct Lacking {
  Sha256 payload;
};

// Also from coordinators: the author has dropped a statement, because it had received one of the
// same author with a higher number before, `later`. Who made both goes on from there. A clock that
// was ahead when the process before this one numbered its statements does that.
struct Overtaken {
  Bytes later;  // the whole statement, with its signature
};

// From coordinators: the author has stored the sum of what a commit lists (sync/committed_sum.h).
// Members may take it instead of the contributions. Without bytes: it forms none, so that members
// need not wait for it.
struct Sum {
  uint64_t round = 0;
  uint32_t fragment = 0;
  Sha256 contributions;              // which ones, and in what order (digest_of)
  WireType format = WireType::kF32;  // of the sum
  float factor = 1;                  // by which the sum was multiplied; finite, above 0
  Sha256 payload;
  uint64_t bytes = 0;
  bool operator==(const Sum&) const = default;
};

// From coordinators: what the run waits for at present, in words; empty: for nothing unusual. Sent
// when that changes, and at least every report_s, so that members notice when it falls silent.
struct Waiting {
  std::string text;
};

// --- from auditors, whom the run's owner admits; they are not members

// What an auditor found of a contribution that was committed (docs/audits.md).
struct Audit {
  int member = 0;  // whose contribution it is
  uint64_t round = 0;
  uint32_t fragment = 0;
  double effect = 0;            // finite
  std::optional<double> error;  // finite, at least 0; only where it could be recomputed
};

// --- from the store

// These bytes are stored safely, and may count.
struct Acknowledged {
  Sha256 payload;
  int member = -1;  // the member that offered them; -1: any
};
// An offered payload was checked and must not count: an offence. Its operation no longer waits for
// it.
struct PayloadRefused {
  Offer offer;
  std::string why;  // shown to users
};
// The run's owner no longer lets this member take part.
struct Dismissed {
  PublicKey key;
};
// The store is connected (again), and `last` is its last record. Actions are carried out on this
// connection or not at all: nothing sent before the connection was lost may arrive after this.
struct StoreConnected {
  uint64_t last = 0;
};
// The store reports that a connection of this key's owner has ended. It may already be connected
// again.
struct Departed {
  PublicKey key;
};
// The store is disconnected. The coordinator requests nothing until it is connected again.
struct StoreDisconnected {};
// The member has said that it needs what the store has lost (Lacking).
struct Lacks {
  int member = 0;
};
// The next record of the stream.
struct RecordRead {
  Bytes record;
};

using Input = std::variant<JoinRequest, Report, Offer, Loss, LeaveNotice, SnapshotReady, Supply,
                           Misconduct, Dismissed, Acknowledged, PayloadRefused, StoreConnected,
                           Departed, StoreDisconnected, Lacks, RecordRead>;

// --- actions

// To the store: append this as record `expected_last` + 1 if `expected_last` is the last one. The
// only answer is the record itself in the stream.
struct Append {
  uint64_t expected_last = 0;
  Bytes record;
};
// Ask whether the store holds these bytes. The answer is Acknowledged, once it does.
struct AskStored {
  Sha256 payload;
};
// The stream contradicts what was read before: read it again from the first record.
struct Reread {};
// The member has records that the store lost: ask it to supply those from `first` on.
struct AskRecords {
  // Instead of an id: whoever has asked to take part with a replica that the ledger does not have,
  // and is not known there.
  static constexpr int kStrangers = std::numeric_limits<int32_t>::max();
  int member = 0;
  uint64_t first = 0;
};
// Ask the member to make a snapshot of its current state and then send SnapshotReady.
struct AskSnapshot {
  int member = 0;
};
// The request of `key` is refused; `why` is shown to users.
struct Refuse {
  PublicKey key;
  std::string why;
};

// Tell the users.
struct Notice {
  std::string text;
};
// The run cannot go on soundly: stop, and tell the users why.
struct Halt {
  std::string why;
};

using Action =
    std::variant<Append, AskStored, Reread, AskRecords, AskSnapshot, Refuse, Notice, Halt>;

}  // namespace thinwire::membership
