#include "thinwire/serve/spent_payloads.h"

#include <algorithm>

namespace thinwire::serve {

void SpentPayloads::offered(uint64_t round, const std::string& holder,
                            const std::vector<Sha256>& chunks) {
  for (const Sha256& name : chunks) {
    const Chunk chunk{holder, name};
    offered_[round].push_back(chunk);
    uint64_t& newest = newest_[chunk];
    newest = std::max(newest, round);
  }
}

std::vector<SpentPayloads::Chunk> SpentPayloads::take(uint64_t replayable_from) {
  std::vector<Chunk> spent;
  while (!offered_.empty()) {
    const auto oldest = offered_.begin();
    const auto closed = closed_at_.find(oldest->first);
    if (closed == closed_at_.end() || closed->second > replayable_from) break;
    for (const Chunk& chunk : oldest->second) {
      const auto newest = newest_.find(chunk);
      if (newest == newest_.end() || newest->second != oldest->first) continue;
      newest_.erase(newest);
      spent.push_back(chunk);
    }
    closed_at_.erase(closed_at_.begin(), std::next(closed));
    offered_.erase(oldest);
  }
  return spent;
}

}  // namespace thinwire::serve
