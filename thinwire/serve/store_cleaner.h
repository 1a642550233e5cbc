// Frees the store of what nobody fetches any more: payloads that nobody replays, and snapshots that
// nobody begins with. docs/hosts.md, "Snapshots".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/chunk_uses.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/spent_payloads.h"
#include "thinwire/serve/spent_snapshots.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Belongs to the thread that ticks the host.
class StoreCleaner {
 public:
  // What the courier answers goes to `inbox`, perhaps after this object has ended.
  StoreCleaner(transport::Courier& courier, std::shared_ptr<Inbox> inbox)
      : courier_(courier), inbox_(std::move(inbox)) {}

  // A payload that was offered for a round and fetched.
  void offered(uint64_t round, const std::string& holder, Bytes payload);
  // A record of the ledger; the same may be read again.
  void read(const membership::Record& record);
  void take(ListedSnapshot listed);
  // Drops what is spent according to the ledger's state.
  void clean(const membership::State& state);

 private:
  void list(const SpentSnapshots::Unlisted& snapshot);

  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  ChunkUses uses_;
  SpentPayloads payloads_{uses_};
  SpentSnapshots snapshots_{uses_};
  // What the ledger says of snapshots, until its state knows who their holders are.
  std::vector<membership::Snapshot> unplaced_;
};

}  // namespace thinwire::serve
