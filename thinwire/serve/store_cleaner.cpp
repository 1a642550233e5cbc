#include "thinwire/serve/store_cleaner.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "thinwire/base/nkey.h"

namespace thinwire::serve {
namespace {

// The newest two, and those that members were assigned to start from.
std::set<uint64_t> needed_snapshots(const membership::State& state) {
  std::set<uint64_t> needed;
  for (const auto& [sequence, held] : state.snapshots) needed.insert(sequence);
  for (const membership::Member& member : state.members) {
    if (member.snapshot) needed.insert(*member.snapshot);
  }
  return needed;
}

std::string holder(const membership::State& state, int member) {
  return participant_name(state.members[static_cast<size_t>(member)].key);
}

}  // namespace

void UnusedPayloads::offered(uint64_t round, const std::string& holder,
                             const transport::BlobId& payload) {
  const Holding holding{holder, payload.name};
  const auto [known, is_new] =
      needed_.try_emplace(holding, Needed{round, transport::chunks_in(payload.bytes)});
  Needed& needed = known->second;
  if (is_new) {
    chunks_ += needed.chunks;
  } else if (round > needed.round) {
    by_round_[needed.round].erase(holding);
    needed.round = round;
  }
  by_round_[needed.round].insert(holding);
}

std::vector<Holding> UnusedPayloads::take(uint64_t replayable_from, uint64_t countable_from) {
  while (!closed_at_.empty() && closed_at_.begin()->second <= replayable_from) {
    spent_before_ = std::max(spent_before_, closed_at_.begin()->first + 1);
    closed_at_.erase(closed_at_.begin());
  }
  const uint64_t end = std::min(spent_before_, countable_from);
  std::vector<Holding> spent;
  while (!by_round_.empty() && by_round_.begin()->first < end) {
    for (const Holding& one : by_round_.begin()->second) {
      const auto needed = needed_.find(one);
      chunks_ -= needed->second.chunks;
      needed_.erase(needed);
      spent.push_back(one);
    }
    by_round_.erase(by_round_.begin());
  }
  return spent;
}

uint64_t UnusedPayloads::chunks_of(const Holding& payload) const {
  const auto needed = needed_.find(payload);
  return needed == needed_.end() ? 0 : needed->second.chunks;
}

void StoreCleaner::offered(uint64_t round, const std::string& holder,
                           const transport::BlobId& payload) {
  if (payload.bytes == 0) return;  // all empty payloads are one chunk
  payloads_.offered(round, holder, payload);
}

void StoreCleaner::read(const membership::Record& record) {
  if (record.closing) {
    payloads_.closed(record.closing->round, record.sequence);
    closed_.push_back({record.sequence, *record.closing});
  }
  for (const membership::Change& change : record.changes) {
    const auto* snapshot = std::get_if<membership::Snapshot>(&change);
    if (snapshot == nullptr) continue;
    unplaced_.push_back(*snapshot);
    forget_old_closings(snapshot->sequence);
  }
}

// Those before the snapshot that precedes the newest two; `snapshot` is a new one.
void StoreCleaner::forget_old_closings(uint64_t snapshot) {
  newest_snapshots_.insert(snapshot);
  if (newest_snapshots_.size() < 3) return;
  while (newest_snapshots_.size() > 3) newest_snapshots_.erase(newest_snapshots_.begin());
  while (!closed_.empty() && closed_.front().sequence <= *newest_snapshots_.begin()) {
    closed_.pop_front();
  }
}

void StoreCleaner::clean(const membership::State& state) {
  place_snapshots(state);
  place_payloads(state);
  std::vector<Holding> spent = payloads_.take(state.replayable_from(), state.oldest_countable());
  const std::set<uint64_t> needed = needed_snapshots(state);
  std::erase_if(snapshots_, [&](const auto& snapshot) {
    if (needed.contains(snapshot.first)) return false;
    for (const auto& [holding, chunks] : snapshot.second) spent.push_back(holding);
    return true;
  });
  for (const Holding& one : spent) {
    if (may_drop(one)) courier_.drop(one.second, one.first, [](const Result<void>&) {});
  }
}

bool StoreCleaner::may_drop(const Holding& blob) const {
  if (used(blob) > 0) return false;  // as something else
  if (blob.first != courier_.self()) return true;
  return own_ && !own_->contains(blob.second);
}

void StoreCleaner::never_drop(const std::vector<Sha256>& blobs) {
  if (!own_) own_.emplace();
  own_->insert(blobs.begin(), blobs.end());
}

uint64_t StoreCleaner::used() const {
  uint64_t chunks = payloads_.chunks();
  for (const auto& [sequence, snapshot] : snapshots_) {
    for (const auto& [holding, count] : snapshot) chunks += count;
  }
  return chunks;
}

uint64_t StoreCleaner::used(const Holding& blob) const {
  uint64_t chunks = payloads_.chunks_of(blob);
  for (const auto& [sequence, snapshot] : snapshots_) {
    const auto found = snapshot.find(blob);
    if (found != snapshot.end()) chunks = std::max(chunks, found->second);
  }
  return chunks;
}

void StoreCleaner::place_snapshots(const membership::State& state) {
  for (const membership::Snapshot& one : std::exchange(unplaced_, {})) {
    if (!state.knows(one.member)) continue;  // of a history that is gone
    snapshots_[one.sequence].insert_or_assign({holder(state, one.member), one.content},
                                              transport::chunks_in(one.bytes));
  }
}

// A late one is replayed with the round that counts it, not with its own.
void StoreCleaner::place_payloads(const membership::State& state) {
  for (const Closed& closed : std::exchange(closed_, {})) {
    for (const Commit& commit : closed.closing.commits) {
      for (const Contribution& one : commit.contributions) {
        if (!state.knows(one.member)) continue;
        offered(closed.closing.round, holder(state, one.member), {one.payload, one.bytes});
      }
    }
  }
}

}  // namespace thinwire::serve
