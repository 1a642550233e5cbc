// Finds snapshots that the store need no longer keep: all except those that members may start from
// and snapshot 0, the run's initial weights. A pure state machine.
//
// The chunks of a snapshot are known from the list of their names (transport::list_of), which is
// fetched when the snapshot appears in the ledger. Until the list has arrived, nothing may be
// dropped (is_complete), because other blobs may share chunks with the snapshot.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"
#include "thinwire/serve/chunk_uses.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::serve {

// Finds payloads that the store need no longer keep: those of rounds that were closed before the
// older of the two newest snapshots, which are no longer replayed. A pure state machine.

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

// Not thread-safe.
class UnusedSnapshots {
 public:
  // `uses` must outlive it.
  explicit UnusedSnapshots(ChunkUses& uses) : uses_(uses) {}

  // The ledger lists this holder of a snapshot; may be called repeatedly with the same arguments.
  void taken(uint64_t sequence, const transport::BlobId& content, const std::string& holder);
  // A snapshot whose list of chunks is needed, and its holders; each is returned once.
  struct Unlisted {
    transport::BlobId content;
    std::vector<std::string> holders;
  };
  std::optional<Unlisted> next_unlisted();
  // Its chunks; empty: the store has lost it.
  void listed(const transport::BlobId& content, const std::vector<Sha256>& chunks);
  // Its list could not be fetched; next_unlisted() returns it again.
  void not_listed(const transport::BlobId& content);

  // Whether the chunks of all `needed` snapshots are known.
  bool is_complete(const std::set<uint64_t>& needed) const;
  // Chunks of all snapshots but those needed; each is returned once.
  std::vector<StoredChunk> take(const std::set<uint64_t>& needed);

 private:
  enum class Listing : uint8_t { kNone, kInProgress, kDone };
  struct Held {
    std::set<std::string> holders;
    Listing listing = Listing::kNone;
    std::vector<Sha256> chunks;
  };
  void use(const Held& held, const std::string& holder);

  ChunkUses& uses_;
  using Name =
      std::pair<uint64_t, transport::BlobId>;  // after a fork, one sequence may have several
  std::map<Name, Held> held_;
};

}  // namespace thinwire::serve
