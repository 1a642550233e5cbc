// Which snapshots the store need not keep any more: all but those that members may begin with, and
// snapshot 0, which is what the run began with and costs room once. A pure state machine.
//
// The chunks of a snapshot are known by its list of their names (transport::list_of), which is
// fetched when the ledger says that there is the snapshot. Until it is here, nothing may be dropped
// (is_complete), because other blobs may have chunks in common with it.
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
class SpentSnapshots {
 public:
  // `uses` must outlive it.
  explicit SpentSnapshots(ChunkUses& uses) : uses_(uses) {}

  // The ledger says that this holder has a snapshot; the same may be said again.
  void taken(uint64_t sequence, const transport::BlobId& content, const std::string& holder);
  // A snapshot whose chunks are to be listed, and who has it; each is returned once.
  struct Unlisted {
    transport::BlobId content;
    std::vector<std::string> holders;
  };
  std::optional<Unlisted> next_unlisted();
  // Its chunks; empty: the store has lost it.
  void listed(const transport::BlobId& content, const std::vector<Sha256>& chunks);
  // Its list did not come; it is returned again.
  void not_listed(const transport::BlobId& content);

  // Whether the chunks of all snapshots that members may begin with are known.
  bool is_complete(const std::set<uint64_t>& needed) const;
  // Chunks of all snapshots but those needed; each is returned once.
  std::vector<StoredChunk> take(const std::set<uint64_t>& needed);

 private:
  enum class Listing : uint8_t { kNone, kUnderWay, kDone };
  struct Held {
    std::set<std::string> holders;
    Listing listing = Listing::kNone;
    std::vector<Sha256> chunks;
  };
  void use(const Held& held, const std::string& holder);

  ChunkUses& uses_;
  using Name = std::pair<uint64_t, transport::BlobId>;  // a sequence is another one after a fork
  std::map<Name, Held> held_;
};

}  // namespace thinwire::serve
