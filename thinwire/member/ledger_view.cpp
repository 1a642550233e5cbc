#include "thinwire/member/ledger_view.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "thinwire/membership/ledger.h"

namespace thinwire::member {
namespace {

// Rounds that were closed this many records before the oldest one that can be replayed are
// forgotten: a replica that starts from a snapshot looks back only a few.
constexpr uint64_t kKept = 256;

}  // namespace

LedgerView::Taken LedgerView::take(const Bytes& bytes) {
  const Result<membership::Record> record = membership::decode_record(bytes);
  if (!record || !membership::is_by_coordinator(bytes, *record, founding_, verify_)) {
    return Taken::kIgnored;
  }
  const Sha256 hash = membership::record_hash(bytes);
  if (record->sequence < hashes_.size()) {
    return hashes_[record->sequence] == hash ? Taken::kIgnored
                                             : reset({record->sequence, record->writer});
  }
  const bool next = record->sequence == state_.position.sequence + 1;
  if (next && record->previous != state_.position.hash) {
    return reset({state_.position.sequence, record->writer});
  }
  membership::State state = state_;
  if (!state.apply(*record, hash) || *state.founding != founding_) return Taken::kIgnored;
  state_ = std::move(state);
  hashes_.push_back(hash);
  tail_.push(bytes);
  note(*record);
  return Taken::kApplied;
}

LedgerView::Taken LedgerView::reset(const Fork& fork) {
  fork_ = fork;
  state_ = {};
  hashes_.resize(1);
  tail_.clear();
  rounds_.clear();
  evaluations_.clear();
  reopened_.reset();
  return Taken::kForked;
}

void LedgerView::note(const membership::Record& record) {
  reopened_.reset();
  for (const membership::Change& change : record.changes) {
    const auto* evaluation = std::get_if<membership::Evaluation>(&change);
    if (evaluation != nullptr) evaluations_.push_back(*evaluation);
  }
  if (record.closing) {
    LedgerRound& round = rounds_.at(record.closing->round);
    round.closing = record.closing;
    round.closed_at = record.sequence;
  }
  for (const membership::Opening& opening : record.openings) {
    const auto [round, fresh] = rounds_.try_emplace(opening.round);
    if (!fresh && !reopened_) reopened_ = opening.round;
    round->second.opening = opening;
    round->second.opened_at = record.sequence;
  }
  const bool has_snapshot =
      std::ranges::any_of(record.changes, [](const membership::Change& change) {
        return std::holds_alternative<membership::Snapshot>(change);
      });
  if (!has_snapshot) return;
  std::erase_if(rounds_, [&](const auto& round) {
    return round.second.closing && round.second.closed_at + kKept < state_.replayable_from();
  });
}

const LedgerRound* LedgerView::round(uint64_t number) const {
  const auto found = rounds_.find(number);
  return found == rounds_.end() ? nullptr : &found->second;
}

std::vector<Bytes> LedgerView::records_from(uint64_t first, size_t max_bytes) const {
  const uint64_t oldest = hashes_.size() - tail_.size();
  std::vector<Bytes> records;
  size_t bytes = 0;
  for (uint64_t at = std::max(first, oldest); at < hashes_.size(); ++at) {
    const Bytes& record = tail_.from_end(hashes_.size() - at);
    bytes += record.size();
    if (bytes > max_bytes && !records.empty()) break;
    records.push_back(record);
  }
  return records;
}

std::map<uint64_t, Bytes> LedgerView::last_records(size_t max_bytes) const {
  std::map<uint64_t, Bytes> records;
  size_t bytes = 0;
  for (size_t back = 1; back <= tail_.size(); ++back) {
    const Bytes& record = tail_.from_end(back);
    bytes += record.size();
    if (bytes > max_bytes && !records.empty()) break;
    records.emplace(hashes_.size() - back, record);
  }
  return records;
}

}  // namespace thinwire::member
