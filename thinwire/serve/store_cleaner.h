// Deletes from the store what is no longer fetched: payloads that are no longer replayed, and
// snapshots that no member may start from. docs/hosts.md, "Snapshots".
//
// Payloads are known from offers. Those that an earlier coordinator's host received are known from
// the ledger, for rounds closed since the snapshot before the newest two; that host deleted earlier
// ones itself.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// A blob in the store: who has it there, and its name.
using Holding = std::pair<std::string, Sha256>;

// Finds payloads that the store need no longer keep: those of rounds that were closed before the
// older of the two newest snapshots, which are no longer replayed. A pure state machine; not
// thread-safe.
class UnusedPayloads {
 public:
  // A payload was offered for a round, perhaps long ago, or counted in it. It is needed as long as
  // the last of its rounds.
  void offered(uint64_t round, const std::string& holder, const transport::BlobId& payload);
  // The round was closed by this record.
  void closed(uint64_t round, uint64_t sequence) { closed_at_[round] = sequence; }
  // What is not needed once only records after `replayable_from` can be replayed, and no
  // payload of a round before `countable_from` can count any more; each is returned once.
  std::vector<Holding> take(uint64_t replayable_from, uint64_t countable_from);

  // The chunks of all that are needed, and of one; 0: it is not needed.
  uint64_t chunks() const { return chunks_; }
  uint64_t chunks_of(const Holding& payload) const;

 private:
  struct Needed {
    uint64_t round = 0;  // the last
    uint64_t chunks = 0;
  };
  std::map<uint64_t, uint64_t> closed_at_;  // the closing's record, by round
  uint64_t spent_before_ = 0;               // earlier rounds are spent
  std::map<Holding, Needed> needed_;
  std::map<uint64_t, std::set<Holding>> by_round_;  // the last
  uint64_t chunks_ = 0;
};

// Belongs to the thread that ticks the host.
class StoreCleaner {
 public:
  explicit StoreCleaner(transport::Courier& courier) : courier_(courier) {}

  // A payload that was offered for a round and fetched.
  void offered(uint64_t round, const std::string& holder, const transport::BlobId& payload);
  // A record of the ledger; the same record may be passed repeatedly.
  void read(const membership::Record& record);
  // These blobs under the courier's own name are not dropped, and from now on its others may be.
  void never_drop(const std::vector<Sha256>& blobs);
  // Deletes what is no longer needed. `state`: of the ledger, of which every record has been passed
  // to read().
  void clean(const membership::State& state);

  // Whether it knows of everything in the store that is needed: it has cleaned since the last
  // record.
  bool is_complete() const { return unplaced_.empty() && closed_.empty(); }
  // How many chunks the payloads and snapshots that are kept have, and one of them: at most, as
  // equal chunks of a blob are stored once. 0: it is not needed.
  uint64_t used() const;
  uint64_t used(const Holding& blob) const;

 private:
  struct Closed {
    uint64_t sequence;  // of its record
    membership::Closing closing;
  };

  bool may_drop(const Holding& blob) const;
  void forget_old_closings(uint64_t snapshot);
  void place_snapshots(const membership::State& state);
  void place_payloads(const membership::State& state);

  transport::Courier& courier_;
  std::optional<std::set<Sha256>> own_;  // not to be dropped; none: it is not known
  UnusedPayloads payloads_;
  // By sequence, of which one may have several after a fork; with their chunks.
  std::map<uint64_t, std::map<Holding, uint64_t>> snapshots_;
  // Snapshots in the ledger, until its state knows their holders.
  std::vector<membership::Snapshot> unplaced_;
  std::deque<Closed> closed_;            // whose payloads may not all be known
  std::set<uint64_t> newest_snapshots_;  // three
};

}  // namespace thinwire::serve
