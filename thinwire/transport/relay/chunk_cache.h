// Chunks of blobs by their SHA-256, in memory: those that were used last, up to a number of bytes.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"

namespace thinwire::transport {

class ChunkCache {
 public:
  explicit ChunkCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // The caller has checked that the bytes have this hash.
  void add(const Sha256& name, std::shared_ptr<const Bytes> chunk);
  // Null: it is not there, or no more.
  std::shared_ptr<const Bytes> find(const Sha256& name);
  uint64_t bytes() const { return bytes_; }

 private:
  using Entry = std::pair<Sha256, std::shared_ptr<const Bytes>>;

  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::list<Entry> entries_;  // the one used last is the first
  std::map<Sha256, std::list<Entry>::iterator> by_name_;
};

}  // namespace thinwire::transport
