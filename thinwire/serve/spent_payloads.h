// Which payloads the store need not keep any more: those of rounds that were closed before the
// older of the two newest snapshots, rounds that nobody replays any more. A pure state machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"
#include "thinwire/serve/chunk_uses.h"

namespace thinwire::serve {

// Not thread-safe. It knows only what it was told since it was made: payloads that only an earlier
// coordinator's host knew of stay in the store.
class SpentPayloads {
 public:
  // `uses` must outlive it.
  explicit SpentPayloads(ChunkUses& uses) : uses_(uses) {}

  // A payload that was offered for a round consists of these chunks of a holder.
  void offered(uint64_t round, const std::string& holder, const std::vector<Sha256>& chunks);
  // The round was closed by this record.
  void closed(uint64_t round, uint64_t sequence) { closed_at_[round] = sequence; }
  // Chunks that nobody needs once only records after `replayable_from` can be replayed; each is
  // returned once. A chunk that something else has, too, is still needed.
  std::vector<StoredChunk> take(uint64_t replayable_from);

 private:
  ChunkUses& uses_;
  std::map<uint64_t, uint64_t> closed_at_;                // the closing's record, by round
  std::map<uint64_t, std::vector<StoredChunk>> offered_;  // by round
};

}  // namespace thinwire::serve
