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
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/chunk_uses.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/unused_snapshots.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Belongs to the thread that ticks the host.
class StoreCleaner {
 public:
  // The courier's answers go to `inbox`, perhaps after this object is destroyed. `copies`: payloads
  // are stored under the courier's own name, too (HostOptions::keeps).
  StoreCleaner(transport::Courier& courier, std::shared_ptr<Inbox> inbox, bool copies)
      : courier_(courier), inbox_(std::move(inbox)), copies_(copies) {}

  // A payload that was offered for a round and fetched.
  void offered(uint64_t round, const std::string& holder, Bytes payload);
  // A record of the ledger; the same record may be passed repeatedly.
  void read(const membership::Record& record);
  void take(ListedSnapshot listed);
  void take(ListedPayload listed);
  // These chunks under the courier's own name are not dropped, and from now on its others may be.
  void never_drop(const std::vector<Sha256>& chunks);
  // Deletes what is no longer needed. `state`: of the ledger, of which every record has been passed
  // to read().
  void clean(const membership::State& state);

  // Whether it knows of everything in the store that is needed: it has no list of chunks to wait
  // for. `state` as for clean().
  bool is_complete(const membership::State& state) const;
  // How many chunks the payloads and snapshots that are kept have, and whether this is one of them.
  size_t used() const { return uses_.count(); }
  bool uses(const StoredChunk& chunk) const { return uses_.has(chunk); }

 private:
  struct Closed {
    uint64_t sequence;  // of its record
    membership::Closing closing;
  };
  using Holding = std::pair<std::string, Sha256>;  // who has a payload, and its name

  bool may_drop(const StoredChunk& chunk) const;
  void forget_old_closings(uint64_t snapshot);
  void place_snapshots(const membership::State& state);
  void place_payloads(const membership::State& state);
  void list(const UnusedSnapshots::Unlisted& snapshot);
  void list(uint64_t round, const std::string& holder, const transport::BlobId& payload);

  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  const bool copies_;
  std::optional<std::set<Sha256>> own_;  // not to be dropped; none: it is not known
  ChunkUses uses_;
  UnusedPayloads payloads_{uses_};
  UnusedSnapshots snapshots_{uses_};
  // Snapshots in the ledger, until its state knows their holders.
  std::vector<membership::Snapshot> unplaced_;
  std::deque<Closed> closed_;                             // whose payloads may not all be known
  std::map<uint64_t, std::set<Holding>> payloads_known_;  // of open rounds, and those just closed
  std::set<uint64_t> newest_snapshots_;                   // three
  size_t listing_ = 0;  // payloads whose lists of chunks are being fetched
};

}  // namespace thinwire::serve
