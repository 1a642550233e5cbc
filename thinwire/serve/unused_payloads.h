// Finds payloads that the store need no longer keep: those of rounds that were closed before the
// older of the two newest snapshots, which are no longer replayed. A pure state machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"
#include "thinwire/serve/chunk_uses.h"

namespace thinwire::serve {

// Not thread-safe.
class UnusedPayloads {
 public:
  // `uses` must outlive it.
  explicit UnusedPayloads(ChunkUses& uses) : uses_(uses) {}

  // A payload that was offered for a round, perhaps long ago, consists of these chunks of a holder.
  void offered(uint64_t round, const std::string& holder, const std::vector<Sha256>& chunks);
  // The round was closed by this record.
  void closed(uint64_t round, uint64_t sequence) { closed_at_[round] = sequence; }
  // Chunks that are not needed once only records after `replayable_from` can be replayed, and no
  // payload of a round before `countable_from` can count any more; each is returned once. A chunk
  // that also belongs to another blob is still needed.
  std::vector<StoredChunk> take(uint64_t replayable_from, uint64_t countable_from);

 private:
  ChunkUses& uses_;
  std::map<uint64_t, uint64_t> closed_at_;                // the closing's record, by round
  uint64_t spent_before_ = 0;                             // earlier rounds are spent
  std::map<uint64_t, std::vector<StoredChunk>> offered_;  // by round
};

}  // namespace thinwire::serve
