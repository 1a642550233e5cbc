#include "thinwire/serve/store_cleaner.h"

#include <set>
#include <utility>
#include <variant>

#include "thinwire/transport/nats/nkey.h"

namespace thinwire::serve {
namespace {

// The newest two, and those that somebody was told to begin with.
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
  std::vector<Sha256> names;
  for (const transport::Chunk& chunk : blob.chunks()) names.push_back(chunk.name);
  payloads_.offered(round, holder, names);
}

void StoreCleaner::read(const membership::Record& record) {
  if (record.closing) payloads_.closed(record.closing->round, record.sequence);
  for (const membership::Change& change : record.changes) {
    const auto* snapshot = std::get_if<membership::Snapshot>(&change);
    if (snapshot != nullptr) unplaced_.push_back(*snapshot);
  }
}

void StoreCleaner::clean(const membership::State& state) {
  for (const membership::Snapshot& one : std::exchange(unplaced_, {})) {
    if (!state.knows(one.member)) continue;  // of a history that is gone
    const PublicKey& key = state.members[static_cast<size_t>(one.member)].key;
    snapshots_.taken(one.sequence, {one.content, one.bytes}, transport::participant_name(key));
  }
  while (const auto unlisted = snapshots_.next_unlisted()) list(*unlisted);
  const std::set<uint64_t> needed = needed_snapshots(state);
  if (!snapshots_.is_complete(needed)) return;
  std::vector<StoredChunk> spent = payloads_.take(state.replayable_from());
  for (StoredChunk& chunk : snapshots_.take(needed)) spent.push_back(std::move(chunk));
  for (const StoredChunk& chunk : spent) {
    courier_.drop(chunk.name, chunk.holder, [](const Result<void>&) {});
  }
}

void StoreCleaner::list(const SpentSnapshots::Unlisted& snapshot) {
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
