// Counts which chunks in the store belong to blobs that may still be fetched. Blobs of one holder
// may share chunks (of zeros, for example), so a chunk may be deleted only once nothing uses it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/sha256.h"

namespace thinwire::serve {

struct StoredChunk {
  std::string holder;
  Sha256 name;
  auto operator<=>(const StoredChunk&) const = default;
};

// Not thread-safe.
class ChunkUses {
 public:
  void add(const StoredChunk& chunk) { ++uses_[chunk]; }
  size_t count() const { return uses_.size(); }
  bool has(const StoredChunk& chunk) const { return uses_.contains(chunk); }
  // Ends one use of each of these; appends to `unused` those that have no other.
  void end(const std::vector<StoredChunk>& chunks, std::vector<StoredChunk>& unused) {
    for (const StoredChunk& chunk : chunks) {
      const auto found = uses_.find(chunk);
      if (found == uses_.end() || --found->second > 0) continue;
      uses_.erase(found);
      unused.push_back(chunk);
    }
  }

 private:
  std::map<StoredChunk, size_t> uses_;
};

}  // namespace thinwire::serve
