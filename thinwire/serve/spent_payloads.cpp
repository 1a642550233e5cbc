#include "thinwire/serve/spent_payloads.h"

namespace thinwire::serve {

void SpentPayloads::offered(uint64_t round, const std::string& holder,
                            const std::vector<Sha256>& chunks) {
  for (const Sha256& name : chunks) {
    offered_[round].push_back({holder, name});
    uses_.add({holder, name});
  }
}

std::vector<StoredChunk> SpentPayloads::take(uint64_t replayable_from) {
  std::vector<StoredChunk> spent;
  while (!offered_.empty()) {
    const auto oldest = offered_.begin();
    const auto closed = closed_at_.find(oldest->first);
    if (closed == closed_at_.end() || closed->second > replayable_from) break;
    uses_.end(oldest->second, spent);
    closed_at_.erase(closed_at_.begin(), std::next(closed));
    offered_.erase(oldest);
  }
  return spent;
}

}  // namespace thinwire::serve
