// Which payloads the store need not keep any more: those of rounds that were closed before the
// older of the two newest snapshots, from which nobody replays them. A pure state machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/sha256.h"

namespace thinwire::serve {

// Not thread-safe. It knows what it was told since it was made; what an earlier coordinator's host
// knew stays in the store.
class SpentPayloads {
 public:
  struct Chunk {
    std::string holder;
    Sha256 name;
    auto operator<=>(const Chunk&) const = default;
  };

  // A payload that was offered for a round consists of these chunks of a holder.
  void offered(uint64_t round, const std::string& holder, const std::vector<Sha256>& chunks);
  // The round was closed by this record.
  void closed(uint64_t round, uint64_t sequence) { closed_at_[round] = sequence; }
  // Chunks that nobody needs once only records behind `replayable_from` are replayed; each is
  // returned once. A chunk that belongs to a payload of a later round, too, is still needed.
  std::vector<Chunk> take(uint64_t replayable_from);

 private:
  std::map<uint64_t, uint64_t> closed_at_;          // the closing's record, by round
  std::map<uint64_t, std::vector<Chunk>> offered_;  // by round
  std::map<Chunk, uint64_t> newest_;                // the last round that has it
};

}  // namespace thinwire::serve
