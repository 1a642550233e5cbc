#include "thinwire/serve/unused_payloads.h"

#include <algorithm>

namespace thinwire::serve {

void UnusedPayloads::offered(uint64_t round, const std::string& holder,
                             const std::vector<Sha256>& chunks) {
  for (const Sha256& name : chunks) {
    offered_[round].push_back({holder, name});
    uses_.add({holder, name});
  }
}

std::vector<StoredChunk> UnusedPayloads::take(uint64_t replayable_from, uint64_t countable_from) {
  std::vector<StoredChunk> spent;
  while (!closed_at_.empty() && closed_at_.begin()->second <= replayable_from) {
    spent_before_ = std::max(spent_before_, closed_at_.begin()->first + 1);
    closed_at_.erase(closed_at_.begin());
  }
  const uint64_t end = std::min(spent_before_, countable_from);
  while (!offered_.empty() && offered_.begin()->first < end) {
    uses_.end(offered_.begin()->second, spent);
    offered_.erase(offered_.begin());
  }
  return spent;
}

}  // namespace thinwire::serve
