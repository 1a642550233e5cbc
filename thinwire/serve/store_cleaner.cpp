#include "thinwire/serve/store_cleaner.h"

#include <set>
#include <utility>
#include <variant>

#include "thinwire/transport/nats/nkey.h"

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

}  // namespace

void StoreCleaner::offered(uint64_t round, const std::string& holder, Bytes payload) {
  if (payload.empty()) return;  // all empty payloads are one chunk
  const transport::BlobChunks blob(std::make_shared<const Bytes>(std::move(payload)));
  payloads_known_[round].emplace(holder, blob.id().name);
  payloads_.offered(round, holder, blob.names());
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
  while (const auto unlisted = snapshots_.next_unlisted()) list(*unlisted);
  if (!is_complete(state)) return;
  std::vector<StoredChunk> spent =
      payloads_.take(state.replayable_from(), state.oldest_countable());
  for (StoredChunk& chunk : snapshots_.take(needed_snapshots(state)))
    spent.push_back(std::move(chunk));
  for (const StoredChunk& chunk : spent) {
    if (may_drop(chunk)) courier_.drop(chunk.name, chunk.holder, [](const Result<void>&) {});
  }
}

bool StoreCleaner::may_drop(const StoredChunk& chunk) const {
  if (chunk.holder != courier_.self()) return true;
  return own_ && !own_->contains(chunk.name);
}

void StoreCleaner::never_drop(const std::vector<Sha256>& chunks) {
  if (!own_) own_.emplace();
  own_->insert(chunks.begin(), chunks.end());
}

bool StoreCleaner::is_complete(const membership::State& state) const {
  return unplaced_.empty() && closed_.empty() && listing_ == 0 &&
         snapshots_.is_complete(needed_snapshots(state));
}

void StoreCleaner::place_snapshots(const membership::State& state) {
  for (const membership::Snapshot& one : std::exchange(unplaced_, {})) {
    if (!state.knows(one.member)) continue;  // of a history that is gone
    const PublicKey& key = state.members[static_cast<size_t>(one.member)].key;
    snapshots_.taken(one.sequence, {one.content, one.bytes}, transport::participant_name(key));
  }
}

void StoreCleaner::place_payloads(const membership::State& state) {
  for (const Closed& closed : std::exchange(closed_, {})) {
    for (const Commit& commit : closed.closing.commits) {
      for (const Contribution& one : commit.contributions) {
        if (one.bytes == 0 || !state.knows(one.member)) continue;
        const PublicKey& key = state.members[static_cast<size_t>(one.member)].key;
        const std::string holder = transport::participant_name(key);
        const auto known = payloads_known_.find(one.round);
        const bool was_offered =
            known != payloads_known_.end() && known->second.contains({holder, one.payload});
        // A late one is replayed with the round that counts it, not with its own.
        if (was_offered && one.round == closed.closing.round) continue;
        list(closed.closing.round, holder, {one.payload, one.bytes});
      }
    }
  }
  payloads_known_.erase(payloads_known_.begin(),
                        payloads_known_.lower_bound(state.oldest_countable()));
}

void StoreCleaner::list(uint64_t round, const std::string& holder,
                        const transport::BlobId& payload) {
  const auto list = transport::list_of(payload);
  if (!list) return payloads_.offered(round, holder, {payload.name});
  ++listing_;
  std::vector<std::string> holders = {holder};
  if (copies_) holders.push_back(courier_.self());
  courier_.get(*list, std::move(holders), transport::Priority::kBulk,
               [inbox = inbox_, round, holder, payload](Result<Bytes> bytes) {
                 inbox->add(ListedPayload{round, holder, payload, std::move(bytes)});
               });
}

void StoreCleaner::take(ListedPayload listed) {
  --listing_;
  if (listed.list) {
    const auto list = std::make_shared<const Bytes>(*std::move(listed.list));
    payloads_.offered(listed.round, listed.holder, transport::chunk_names(list));
  } else if (listed.list.error().kind == FailureKind::kDeadline) {
    list(listed.round, listed.holder, listed.payload);
  }  // else nobody has it
}

void StoreCleaner::list(const UnusedSnapshots::Unlisted& snapshot) {
  const auto list = transport::list_of(snapshot.content);
  if (!list) return snapshots_.listed(snapshot.content, {snapshot.content.name});
  courier_.get(*list, snapshot.holders, transport::Priority::kBulk,
               [inbox = inbox_, content = snapshot.content](Result<Bytes> bytes) {
                 inbox->add(ListedSnapshot{content, std::move(bytes)});
               });
}

void StoreCleaner::take(ListedSnapshot listed) {
  if (listed.list) {
    const auto list = std::make_shared<const Bytes>(*std::move(listed.list));
    snapshots_.listed(listed.content, transport::chunk_names(list));
  } else if (listed.list.error().kind == FailureKind::kDeadline) {
    snapshots_.not_listed(listed.content);
  } else {
    snapshots_.listed(listed.content, {});  // nobody can get it
  }
}

}  // namespace thinwire::serve
