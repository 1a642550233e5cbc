// What a member's replica starts from: its checkpoint or a snapshot, once the ledger has been read.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/member/member.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {

using membership::Phase;

Result<StartState> Follower::Impl::wait_start_state() {
  Lock lock(mutex_);
  bool told = false;
  while (true) {
    notice_denial();
    const bool is_known = settings_.audits || own() != nullptr;
    if (checkpoint_ && has_read_all() && is_known && !takes_checkpoint() && !awaits_records()) {
      give_up_checkpoint(lock);
      continue;
    }
    if (refused_ || can_start()) break;
    if (stopped()) return over();
    if (awaits_records() && !std::exchange(told, true)) {
      say(lock, fmt::format("the run's ledger ends at record {}, before this member's checkpoint "
                            "at record {}: the coordinator's folder is an older copy, or its store "
                            "has lost records; gives them back",
                            view_.state().position.sequence, checkpoint_->closed.sequence));
      continue;
    }
    if (std::string text = why_longer(lock); !text.empty()) {
      lock.unlock();
      show({ActivityKind::kAsking, 0, 0, {}, std::move(text)});
      lock.lock();
    }
    changed_.wait_for(lock, kStopPollInterval);
  }
  if (refused_) return fail(FailureKind::kRefused, *refused_);
  starts_over_.reset();
  if (takes_checkpoint()) return StartState{checkpoint_->closed.sequence, true, {}, {}};
  const uint64_t sequence = *start_snapshot();
  const membership::State& state = view_.state();
  const membership::HeldSnapshot& held = state.snapshots.at(sequence);
  StartState start{sequence, false, {held.content, held.bytes}, {}};
  for (const int holder : held.holders) {
    const PublicKey& key = state.members[static_cast<size_t>(holder)].key;
    start.holders.push_back(transport::participant_name(key));
  }
  for (const PublicKey& key : state.founding->coordinators) {
    if (sequence == 0) start.holders.push_back(transport::participant_name(key));
  }
  return start;
}

std::optional<uint64_t> Follower::Impl::start_snapshot() const {
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

bool Follower::Impl::skip(const StartState& start) {
  const std::lock_guard lock(mutex_);
  const auto& snapshots = view_.state().snapshots;
  if (snapshots.empty() || snapshots.rbegin()->first <= start.sequence) return false;
  skipped_ = start.sequence;
  return true;
}

// Without a position, the coordinator assigns it a snapshot.
void Follower::Impl::give_up_checkpoint(Lock& lock) {
  const Place place = *std::exchange(checkpoint_, std::nullopt);
  send_soon();
  if (view_.has(place.closed) && view_.has(place.opened)) return;
  say(lock, fmt::format("does not continue from its checkpoint, which is at record {} of another "
                        "history of the run: this folder or the coordinator's is an older copy",
                        place.closed.sequence));
}

bool Follower::Impl::awaits_records() const {
  if (settings_.audits || !checkpoint_ || !has_read_all() || checkpoint_records_.empty()) {
    return false;
  }
  const membership::Position& end = view_.state().position;
  if (checkpoint_->closed.sequence <= end.sequence) return false;
  const auto same = checkpoint_records_.find(end.sequence);
  if (same != checkpoint_records_.end()) return membership::record_hash(same->second) == end.hash;
  return end.sequence == *end_;  // nothing was decided since
}

// Whether the ledger has this member, and says what it starts from.
bool Follower::Impl::can_start() const {
  const membership::Member* member = own();
  if (awaits_records()) return false;
  if (settings_.audits) return has_read_all() && (takes_checkpoint() || start_snapshot());
  if (!has_read_all() || member == nullptr) return false;
  if (is_gone(member->phase) || member->phase == Phase::kWaiting) return false;
  if (takes_checkpoint()) return true;
  return member->phase == Phase::kCatchingUp && member->snapshot &&
         view_.state().snapshots.contains(*member->snapshot);
}

bool Follower::Impl::takes_checkpoint() const {
  if (!checkpoint_ || !continues(view_, *checkpoint_)) return false;
  return !membership::plan_catch_up(view_.state(), &checkpoint_->closed).snapshot;
}

bool Follower::Impl::is_obsolete(const StartState& start) const {
  if (starts_over_) return true;
  const membership::Member* member = own();
  if (settings_.audits) {
    return start.checkpoint ? !takes_checkpoint()
                            : !view_.state().snapshots.contains(start.sequence);
  }
  if (start.checkpoint) return member == nullptr || !takes_checkpoint();
  return member == nullptr || (member->snapshot && *member->snapshot > start.sequence);
}

bool Follower::Impl::begin(const StartState& start, int64_t completed) {
  const std::lock_guard lock(mutex_);
  if (is_obsolete(start)) return false;
  started_by_ = settings_.audits ? start.sequence : own()->phase_since;
  has_replica_ = true;
  given_up_ = false;
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
  send_soon();
  return true;
}

// Those that are closed. A round that the replica has begun is completed, and the last one is
// computed, so that it ends as it does for everybody.
ReplayedRounds Follower::Impl::rounds_to_replay(uint64_t completed) const {
  const membership::State& state = view_.state();
  const uint64_t open = state.open.empty() ? state.next_round : state.open.front().round;
  const uint64_t last = plan_.rounds() - 1;
  uint64_t first = last;
  if (completed == 0) {
    first = 0;
  } else if (plan_.round_of(completed - 1) < last) {
    first = plan_.round_of(completed - 1) + 1;
  }
  return {first, std::max(first, std::min(open, last))};
}

ReplayedRounds Follower::Impl::replayed() const {
  const std::lock_guard lock(mutex_);
  return replayed_;
}

// Refuses recipes that a run of many hosts does not support.
void check_hosted(const config::Recipe& recipe) {
  sync::check_payloads_readable(method::sync_spec(recipe, method::RunKind::kHosted).method);
  method::check_command(recipe, method::Command::kServe);
}

}  // namespace thinwire::member
