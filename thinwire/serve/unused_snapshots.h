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

#include "thinwire/base/sha256.h"
#include "thinwire/serve/chunk_uses.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::serve {

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
