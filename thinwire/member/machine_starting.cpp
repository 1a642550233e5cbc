// What a member's replica starts from: its checkpoint or a snapshot, once the ledger has been read.
#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/nkey.h"
#include "thinwire/member/member_machine.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::member {

using membership::Phase;

std::optional<StartState> MemberMachine::start_state() {
  const bool is_known = settings_.audits || own() != nullptr;
  if (checkpoint_ && has_read_all() && is_known && !takes_checkpoint() && !awaits_records()) {
    give_up_checkpoint();
  }
  if (awaits_records() && !std::exchange(told_of_lost_records_, true)) {
    act(
        Tell{fmt::format("the run's ledger ends at record {}, before this member's checkpoint at "
                         "record {}: the coordinator's folder is an older copy, or its store has "
                         "lost records; gives them back",
                         view_.state().position.sequence, checkpoint_->closed.sequence)});
  }
  if (refused_ || !can_start()) return std::nullopt;
  starts_over_.reset();
  if (takes_checkpoint()) return StartState{checkpoint_->closed.sequence, true, {}, {}};
  const uint64_t sequence = *start_snapshot();
  const membership::State& state = view_.state();
  const membership::HeldSnapshot& held = state.snapshots.at(sequence);
  StartState start{sequence, false, {held.content, held.bytes}, {}};
  for (const int holder : held.holders) {
    const PublicKey& key = state.members[static_cast<size_t>(holder)].key;
    start.holders.push_back(participant_name(key));
  }
  for (const PublicKey& key : state.founding->coordinators) {
    if (sequence == 0) start.holders.push_back(participant_name(key));
  }
  return start;
}

std::optional<uint64_t> MemberMachine::start_snapshot() const {
  const membership::State& state = view_.state();
  if (!settings_.audits) {
    const std::optional<uint64_t> assigned = own() == nullptr ? std::nullopt : own()->snapshot;
    if (!assigned || !skipped_ || *skipped_ < *assigned) return assigned;
    const auto later = state.snapshots.upper_bound(*skipped_);
    return later == state.snapshots.end() ? assigned : std::optional(later->first);
  }
  if (state.snapshots.empty()) return std::nullopt;
  return state.snapshots.rbegin()->first;
}

bool MemberMachine::skip(const StartState& start) {
  const auto& snapshots = view_.state().snapshots;
  if (snapshots.empty() || snapshots.rbegin()->first <= start.sequence) return false;
  skipped_ = start.sequence;
  return true;
}

// Without a position, the coordinator assigns it a snapshot.
void MemberMachine::give_up_checkpoint() {
  const Place place = *std::exchange(checkpoint_, std::nullopt);
  act_soon();
  if (view_.has(place.closed) && view_.has(place.opened)) return;
  act(
      Tell{fmt::format("does not continue from its checkpoint, which is at record {} of another "
                       "history of the run: this folder or the coordinator's is an older copy",
                       place.closed.sequence)});
}

bool MemberMachine::awaits_records() const {
  if (settings_.audits || !checkpoint_ || !has_read_all() || settings_.records.empty()) {
    return false;
  }
  const membership::Position& end = view_.state().position;
  if (checkpoint_->closed.sequence <= end.sequence) return false;
  const auto same = settings_.records.find(end.sequence);
  if (same != settings_.records.end()) return membership::record_hash(same->second) == end.hash;
  return end.sequence == *end_;  // nothing was decided since
}

// Whether the ledger has this member, and says what it starts from.
bool MemberMachine::can_start() const {
  const membership::Member* member = own();
  if (awaits_records()) return false;
  if (settings_.audits) return has_read_all() && (takes_checkpoint() || start_snapshot());
  if (!has_read_all() || member == nullptr) return false;
  if (is_gone(member->phase) || member->phase == Phase::kWaiting) return false;
  if (takes_checkpoint()) return true;
  return member->phase == Phase::kCatchingUp && member->snapshot &&
         view_.state().snapshots.contains(*member->snapshot);
}

bool MemberMachine::takes_checkpoint() const {
  if (!checkpoint_ || !continues(view_, *checkpoint_)) return false;
  return !membership::plan_catch_up(view_.state(), &checkpoint_->closed).snapshot;
}

bool MemberMachine::is_obsolete(const StartState& start) const {
  if (starts_over_) return true;
  const membership::Member* member = own();
  if (settings_.audits) {
    return start.checkpoint ? !takes_checkpoint()
                            : !view_.state().snapshots.contains(start.sequence);
  }
  if (start.checkpoint) return member == nullptr || !takes_checkpoint();
  return member == nullptr || (member->snapshot && *member->snapshot > start.sequence);
}

bool MemberMachine::begin(const StartState& start, int64_t completed) {
  if (is_obsolete(start)) return false;
  started_by_ = settings_.audits ? start.sequence : own()->phase_since;
  has_replica_ = true;
  replica_ = view_.position(start.sequence);
  behind_ = start.checkpoint;
  completed_ = completed;
  replayed_ = rounds_to_replay(static_cast<uint64_t>(completed));
  awaited_.reset();
  handed_out_ = start.checkpoint ? checkpoint_->begun : 0;
  checkpoint_.reset();
  digest_.reset();
  digest_steps_ = -1;
  digests_.clear();
  loss_sum_ = 0;
  loss_tokens_ = 0;
  snapshot_asked_ = false;
  snapshot_.reset();
  act_soon();
  return true;
}

// The rounds that are closed. A round that the replica has begun is completed; the last one is
// computed, so that it ends as it does for everybody, and so is one that may prove to be the last.
ReplayedRounds MemberMachine::rounds_to_replay(uint64_t completed) const {
  const membership::State& state = view_.state();
  const uint64_t open = state.open.empty() ? state.next_round : state.open.front().round;
  const bool may_end = state.finished || (plan_.decides_after(state.next_step) &&
                                          state.evaluated.step < state.next_step);
  uint64_t last = may_end ? state.next_round - 1 : plan_.rounds() - 1;
  while (last > 0 && plan_.round(last).steps.empty()) --last;  // of the same step
  uint64_t first = last;
  if (completed == 0) {
    first = 0;
  } else if (plan_.round_of(completed - 1) < last) {
    first = plan_.round_of(completed - 1) + 1;
  }
  return {first, std::max(first, std::min(open, last))};
}

void MemberMachine::end() {
  has_replica_ = false;
  digest_.reset();
  snapshot_.reset();
  for (const auto& [name, offered] : offers_) {
    act(Forget{{offered.offer.payload, offered.offer.bytes}});
  }
  offers_.clear();
  for (const transport::BlobId& id : std::exchange(early_, {})) act(Forget{id});
  act_soon();
}

}  // namespace thinwire::member
