// The records of a run's ledger: the coordinator's decisions, in order. Records are signed and form
// a chain by their hashes. Nothing else outlasts a coordinator: applying them one after another
// (membership/state.h) gives the members that take part, the rows that each takes, and the
// contributions that count.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "thinwire/base/commit.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/names.h"
#include "thinwire/base/round.h"
#include "thinwire/base/signature.h"
#include "thinwire/method/operations.h"

namespace thinwire::membership {

enum class Phase : uint8_t {
  kWaiting,     // admitted, but its link is too slow to catch up
  kCatchingUp,  // fetches a snapshot or replays the rounds it missed; has no rows
  kActive,      // in the rosters of rounds that open
  kLate,        // missed its last round; has no rows until it has caught up
  kLeft,        // left cleanly; may return
  kLost,        // was silent for too long; may return
  kExcluded,    // committed too many offences, or its key was revoked; may not return
};
inline constexpr std::array<std::string_view, 7> kPhaseNames = {
    "waiting", "catching up", "active", "late", "left", "lost", "excluded"};
constexpr std::span<const std::string_view> names_of(Phase) { return kPhaseNames; }

constexpr bool is_gone(Phase phase) { return phase >= Phase::kLeft; }

// What a record changes besides rounds. Each change takes effect at once.

// Founds the run: the first change of the first record, and in no other record.
struct Founding {
  uint64_t run = 0;
  Sha256 recipe;   // of the resolved recipe
  Sha256 weights;  // snapshot 0
  uint64_t weights_bytes = 0;
  std::vector<PublicKey> coordinators;  // whose records count, ascending
  bool operator==(const Founding&) const = default;
};
// A new member. Ids are assigned in order, from 0.
struct Admission {
  int member = 0;
  PublicKey key;
  bool operator==(const Admission&) const = default;
};
struct PhaseChange {
  int member = 0;
  Phase phase = Phase::kWaiting;
  // With kCatchingUp: the snapshot it starts from; none: it replays the records it lacks.
  std::optional<uint64_t> snapshot;
  bool operator==(const PhaseChange&) const = default;
};
// A member holds a snapshot: the state of a replica that applied the records up to `sequence`,
// named by that number. Snapshot 0 is the run's initial weights.
struct Snapshot {
  int member = 0;
  uint64_t sequence = 0;
  Sha256 content;
  uint64_t bytes = 0;
  bool operator==(const Snapshot&) const = default;
};
// By what a member's share of the rows is computed, from exactly this value: its speed as measured
// in a round, or, with sync.shares = "own", how many rows its own text has.
struct Speed {
  int member = 0;
  float rows_per_second = 0;  // finite, above 0
  bool operator==(const Speed&) const = default;
};
enum class OffenceKind : uint8_t {
  kPayload,  // its payload could not count, which happens to honest members now and then
  kConduct,  // it misuses the store, or does not compute what it is assigned
};
struct Offence {
  int member = 0;
  OffenceKind kind = OffenceKind::kPayload;
  bool operator==(const Offence&) const = default;
};
// The digest of the weights that replicas have after a round.
struct AgreedDigest {
  uint64_t round = 0;
  uint64_t digest = 0;
  bool operator==(const AgreedDigest&) const = default;
};

// What an evaluation of the watched validation set has decided (eval.patience, checkpoint.best). It
// is made with the weights after `step` training steps, by the members of the round that ends
// there.
struct Evaluation {
  uint64_t step = 0;
  std::optional<double>
      loss;           // nats per token, over the rows of all that reported; none: nobody did
  bool ends = false;  // the run ends after this step, because its patience is used up
  bool operator==(const Evaluation&) const = default;
};

using Change = std::variant<Founding, Admission, PhaseChange, Snapshot, Speed, Offence,
                            AgreedDigest, Evaluation>;

using method::StepRates;

// A collective operation of a round.
struct PlannedOperation {
  uint32_t fragment = 0;
  uint64_t max_bytes = 0;  // of a contribution
  bool operator==(const PlannedOperation&) const = default;
};

// A member's part of every step of a round: rows [first, first + count) of the step's batch.
struct Share {
  int member = 0;
  RowRange rows;
  uint64_t since = 0;  // first step of its unbroken presence in the rosters
  bool operator==(const Share& other) const {
    return member == other.member && rows.first == other.rows.first &&
           rows.count == other.rows.count && since == other.since;
  }
};

struct Opening {
  uint64_t round = 0;
  uint32_t epoch = 0;
  uint64_t first_step = 0;                   // training steps are counted from 0
  bool last = false;                         // the run's last round
  std::vector<StepRates> steps;              // none where it follows a round's operations at once
  std::vector<PlannedOperation> operations;  // ascending by fragment
  std::vector<Share> roster;                 // ascending by member; row ranges are contiguous
  bool operator==(const Opening&) const = default;
};

// The end of a round: a commit for each of its operations, in the same order.
struct Closing {
  uint64_t round = 0;
  std::vector<Commit> commits;
  std::vector<int> missing;  // ascending; members of the roster whose rows were left out
  bool operator==(const Closing&) const = default;
};

// Applied in this order: changes, closing, openings.
struct Record {
  uint64_t sequence = 0;  // 1 for the first record
  Sha256 previous;        // hash of the encoded record before; zeros in the first
  PublicKey writer;
  std::vector<Change> changes;
  std::optional<Closing> closing;
  std::vector<Opening> openings;
  bool operator==(const Record&) const = default;
};

// A member's share of a roster that is in order; null: it is not in it.
const Share* share_of(const Opening& opening, int member);

// Number of rows in each step of the round.
uint64_t batch_of(const Opening& opening);

// Training step `index` of a round, counted from the round's first step, as a worker needs it.
// `index` < opening.steps.size().
Round step_of(const Opening& opening, uint64_t run, size_t index);

}  // namespace thinwire::membership
