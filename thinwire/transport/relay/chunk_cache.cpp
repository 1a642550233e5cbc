#include "thinwire/transport/relay/chunk_cache.h"

namespace thinwire::transport {

void ChunkCache::add(const Sha256& name, std::shared_ptr<const Bytes> chunk) {
  if (chunk->size() > max_bytes_ || by_name_.contains(name)) return;
  bytes_ += chunk->size();
  entries_.emplace_front(name, std::move(chunk));
  by_name_.emplace(name, entries_.begin());
  while (bytes_ > max_bytes_) {
    const Entry& oldest = entries_.back();
    bytes_ -= oldest.second->size();
    by_name_.erase(oldest.first);
    entries_.pop_back();
  }
}

std::shared_ptr<const Bytes> ChunkCache::find(const Sha256& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

}  // namespace thinwire::transport
