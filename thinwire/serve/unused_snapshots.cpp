#include "thinwire/serve/unused_snapshots.h"

#include <algorithm>
#include <iterator>

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

void UnusedSnapshots::taken(uint64_t sequence, const transport::BlobId& content,
                            const std::string& holder) {
  Held& held = held_[{sequence, content}];
  if (held.holders.insert(holder).second) use(held, holder);
}

void UnusedSnapshots::use(const Held& held, const std::string& holder) {
  for (const Sha256& name : held.chunks) uses_.add({holder, name});
}

std::optional<UnusedSnapshots::Unlisted> UnusedSnapshots::next_unlisted() {
  for (auto& [name, held] : held_) {
    if (held.listing != Listing::kNone) continue;
    held.listing = Listing::kInProgress;
    return Unlisted{name.second, {held.holders.begin(), held.holders.end()}};
  }
  return std::nullopt;
}

void UnusedSnapshots::listed(const transport::BlobId& content, const std::vector<Sha256>& chunks) {
  for (auto& [name, held] : held_) {
    if (name.second != content || held.listing == Listing::kDone) continue;
    held.listing = Listing::kDone;
    held.chunks = chunks;
    for (const std::string& holder : held.holders) use(held, holder);
  }
}

void UnusedSnapshots::not_listed(const transport::BlobId& content) {
  for (auto& [name, held] : held_) {
    if (name.second == content && held.listing == Listing::kInProgress) {
      held.listing = Listing::kNone;
    }
  }
}

bool UnusedSnapshots::is_complete(const std::set<uint64_t>& needed) const {
  return std::ranges::all_of(held_, [&](const auto& one) {
    return one.second.listing == Listing::kDone || !needed.contains(one.first.first);
  });
}

std::vector<StoredChunk> UnusedSnapshots::take(const std::set<uint64_t>& needed) {
  std::vector<StoredChunk> spent;
  for (auto one = held_.begin(); one != held_.end();) {
    const Held& held = one->second;
    if (needed.contains(one->first.first) || held.listing != Listing::kDone) {
      ++one;
      continue;
    }
    for (const std::string& holder : held.holders) {
      std::vector<StoredChunk> chunks;
      std::ranges::transform(held.chunks, std::back_inserter(chunks), [&](const Sha256& name) {
        return StoredChunk{holder, name};
      });
      uses_.end(chunks, spent);
    }
    one = held_.erase(one);
  }
  return spent;
}

}  // namespace thinwire::serve
