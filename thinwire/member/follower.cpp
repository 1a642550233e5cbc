#include "thinwire/member/follower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/membership/catch_up.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {
namespace {

using membership::Phase;

constexpr std::chrono::milliseconds kStopPollInterval(200);

tl::unexpected<Failure> over() {
  return fail(FailureKind::kAborted, "this member's replica ends here");
}

}  // namespace

// Waits continue for a moment after the member is told to stop.
bool Follower::Impl::ended() {
  if (given_up_ || starts_over_) return true;
  if (!stopped()) return false;
  const double now = monotonic_seconds();
  if (!stopped_at_) stopped_at_ = now;
  return now - *stopped_at_ >= std::min(kMaxLingerSeconds, times_.report_s());
}

bool Follower::Impl::wait(Lock& lock, const std::function<bool()>& ready) {
  while (!ready()) {
    if (ended()) return false;
    changed_.wait_for(lock, kStopPollInterval);
  }
  return !given_up_ && !starts_over_;
}

const membership::Member* Follower::Impl::own() const {
  const auto id = own_id();
  return id ? &view_.state().members[static_cast<size_t>(*id)] : nullptr;
}

Result<StartState> Follower::Impl::wait_start_state() {
  Lock lock(mutex_);
  while (!refused_ && !can_start()) {
    if (stopped()) return over();
    const bool is_known = settings_.audits || own() != nullptr;
    if (checkpoint_ && has_read_all() && is_known && !takes_checkpoint()) {
      checkpoint_.reset();  // without a position, the coordinator assigns it a snapshot
      send_soon();
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
  if (!settings_.audits) return own() == nullptr ? std::nullopt : own()->snapshot;
  if (state.snapshots.empty()) return std::nullopt;
  return state.snapshots.rbegin()->first;
}

// Whether the ledger has this member, and says what it starts from.
bool Follower::Impl::can_start() const {
  const membership::Member* member = own();
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
  return member == nullptr || (member->snapshot && *member->snapshot != start.sequence);
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

void Follower::Impl::end() {
  const std::lock_guard lock(mutex_);
  has_replica_ = false;
  digest_.reset();
  snapshot_.reset();
  for (const auto& [name, offered] : offers_) {
    fetcher_.forget({offered.offer.payload, offered.offer.bytes});
  }
  offers_.clear();
  for (const transport::BlobId& id : std::exchange(early_, {})) fetcher_.forget(id);
  send_soon();
}

Result<membership::Opening> Follower::Impl::opening(uint64_t round) {
  Lock lock(mutex_);
  if (!wait(lock, [&] { return view_.round(round) != nullptr; })) return over();
  handed_out_ = std::max(handed_out_, round + 1);
  return view_.round(round)->opening;
}

Result<Commit> Follower::Impl::commit(uint64_t round, uint32_t fragment) {
  Lock lock(mutex_);
  const auto closed = [&] {
    const LedgerRound* entry = view_.round(round);
    return entry != nullptr && entry->closing.has_value();
  };
  if (!closed()) {
    awaited_ = round;
    send_soon();
    std::vector<int> missing;
    const std::string text = waiting_text(round, missing);
    const int64_t step = completed_;
    lock.unlock();
    show({ActivityKind::kWaiting, round, step, std::move(missing), text});
    lock.lock();
  }
  const bool there = wait(lock, closed);
  awaited_.reset();
  if (!there) return over();
  for (const Commit& commit : view_.round(round)->closing->commits) {
    if (commit.operation.fragment == fragment) return commit;
  }
  return fail(FailureKind::kCorruptPayload,
              fmt::format("round {} has no operation {}", round, fragment));
}

std::string Follower::Impl::waiting_text(uint64_t round, std::vector<int>& missing) const {
  const LedgerRound* entry = view_.round(round);
  if (entry == nullptr) return fmt::format("waits for round {} to open", round);
  const auto received = offers_received_.find(round);
  for (const membership::Share& share : entry->opening.roster) {
    const bool offered =
        received != offers_received_.end() && received->second.contains(share.member);
    if (!offered && own_id() != share.member) missing.push_back(share.member);
  }
  if (missing.empty()) return fmt::format("waits for the coordinator to close round {}", round);
  return fmt::format("waits for {} {} in round {}", missing.size() == 1 ? "member" : "members",
                     fmt::join(missing, ", "), round);
}

Follower::Impl::Holders Follower::Impl::holders_of(const Commit& commit) const {
  Holders holders;
  for (const Contribution& one : commit.contributions) {
    const PublicKey& key = view_.state().members[static_cast<size_t>(one.member)].key;
    holders[{one.payload, one.bytes}].push_back(transport::participant_name(key));
  }
  return holders;
}

Result<std::vector<std::shared_ptr<const Bytes>>> Follower::Impl::payloads(const Commit& commit) {
  Holders holders;
  auto priority = transport::Priority::kRound;
  {
    const std::lock_guard lock(mutex_);
    const membership::Member* member = own();
    if (member != nullptr && member->phase == Phase::kCatchingUp) {
      priority = transport::Priority::kCatchUp;
    }
    holders = holders_of(commit);
  }
  for (const auto& [id, names] : holders) fetcher_.start(id, names, priority);
  std::vector<std::shared_ptr<const Bytes>> payloads;
  for (const Contribution& one : commit.contributions) {
    const transport::BlobId id{one.payload, one.bytes};
    auto payload = fetcher_.wait(id, holders.at(id), priority, [&, said = false]() mutable {
      const std::lock_guard lock(mutex_);
      if (!said && fetcher_.lacks(id)) send_soon();
      said = said || fetcher_.lacks(id);
      return ended();
    });
    if (!payload) return tl::unexpected(payload.error());
    payloads.push_back(*payload);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [id, names] : holders) {
    early_.erase(id);
    fetcher_.forget(id);
  }
  return payloads;
}

Result<std::shared_ptr<const Bytes>> Follower::Impl::sum(const Commit& commit, WireType format,
                                                         float factor) {
  const uint64_t round = commit.operation.round;
  Lock lock(mutex_);
  if (!forms_sum(commit)) return nullptr;
  membership::Sum own;  // if none comes in time
  own.contributions = serve::digest_of(serve::summed(commit));
  const auto said = [&] { return find_sum(own.contributions) != sums_said_.end(); };
  const auto closed = closed_at_.find(round);
  const double until = closed == closed_at_.end() ? 0 : closed->second + times_.absent_s();
  const auto ready = [&] { return said() || monotonic_seconds() >= until; };
  if (!ready()) {
    const int64_t step = completed_;
    lock.unlock();
    show({ActivityKind::kWaiting,
          round,
          step,
          {},
          fmt::format("waits for the coordinator's sum of round {}", round)});
    lock.lock();
  }
  if (!wait(lock, ready)) return over();
  if (!said()) note_sum(own, "");
  const SumSaid found = *find_sum(own.contributions);
  lock.unlock();
  Result<std::shared_ptr<const Bytes>> sum = nullptr;
  if (found.sum.format == format &&
      std::bit_cast<uint32_t>(found.sum.factor) == std::bit_cast<uint32_t>(factor) &&
      found.sum.bytes == serve::summed(commit).front().bytes) {
    sum = fetch(found.id(), found.holder, transport::Priority::kRound);
  }
  lock.lock();
  early_.erase(found.id());
  fetcher_.forget(found.id());
  return sum;
}

Result<std::shared_ptr<const Bytes>> Follower::Impl::fetch(const transport::BlobId& id,
                                                           const std::string& holder,
                                                           transport::Priority priority) {
  bool lost = false;
  auto blob = fetcher_.wait(id, {holder}, priority, [&] {
    const std::lock_guard lock(mutex_);
    lost = fetcher_.lacks(id);
    return lost || ended();
  });
  if (!blob && lost) return nullptr;
  return blob;
}

void Follower::Impl::pause_for(double seconds) {
  Lock lock(mutex_);
  const Stopwatch watch;
  while (!ended() && watch.seconds() < seconds) {
    const std::chrono::duration<double> left(seconds - watch.seconds());
    changed_.wait_for(lock, std::min<std::chrono::duration<double>>(left, kStopPollInterval));
  }
}

void Follower::Impl::completed(int64_t steps) {
  Activity activity;
  {
    const std::lock_guard lock(mutex_);
    completed_ = steps;
    const membership::Member* member = own();
    const bool trains = member != nullptr && member->phase == Phase::kActive;
    if (!trains) send_soon();
    activity = {ActivityKind::kCatchingUp, view_.state().next_round, steps, {}, "catches up"};
    if (trains) activity = {ActivityKind::kTraining, activity.round, steps, {}, "trains"};
    if (settings_.audits) {
      activity = {ActivityKind::kAuditing, activity.round, steps, {}, "follows the run"};
    }
  }
  show(activity);
}

void Follower::Impl::digest(int64_t steps, uint64_t digest) {
  const std::lock_guard lock(mutex_);
  if (!plan_.ends_after(static_cast<uint64_t>(steps))) return;
  digest_ = {plan_.round_of(static_cast<uint64_t>(steps) - 1), digest};
  digest_steps_ = steps;
  if (settings_.audits) {
    digests_[digest_->round] = digest;
    if (digests_.size() > membership::State::kDigestsKept) digests_.erase(digests_.begin());
    follow_as_auditor();
  }
  send_soon();
}

// Whether the replica has applied every record: it has completed all open steps, or needs a round
// to close before its next one.
bool Follower::Impl::caught_up() const {
  if (static_cast<uint64_t>(completed_) == view_.state().next_step) return true;
  if (!awaited_) return false;
  const LedgerRound* round = view_.round(*awaited_);
  return round == nullptr || !round->closing;
}

std::optional<membership::Position> Follower::Impl::position() {
  if (!has_replica_) return checkpoint_ ? std::optional(checkpoint_->closed) : std::nullopt;
  const membership::Member* member = own();
  const bool active = member != nullptr && member->phase == Phase::kActive;
  if (caught_up()) behind_ = false;
  if (!behind_ && (active || caught_up())) replica_ = view_.state().position;
  return replica_;
}

// Acts on what the last record says about this member.
void Follower::Impl::follow_own_phase() {
  const membership::Member* member = own();
  if (settings_.audits) return follow_as_auditor();
  if (member == nullptr) return;
  if (member->phase == Phase::kExcluded) refused_ = "it is excluded after too many offences";
  if (has_replica_ && member->phase == Phase::kCatchingUp && member->snapshot &&
      member->phase_since > started_by_) {
    starts_over_ = fmt::format("the coordinator assigned it snapshot {}", *member->snapshot);
  }
  if (refused_ && !starts_over_) starts_over_ = refused_;
  start_over_if_reopened();
}

void Follower::Impl::start_over_if_reopened() {
  if (has_replica_ && view_.reopened() && *view_.reopened() < handed_out_) {
    starts_over_ = fmt::format("round {} was reopened with different members", *view_.reopened());
  }
}

std::optional<Place> Follower::Impl::place(int64_t steps) const {
  const std::lock_guard lock(mutex_);
  return place_of(view_, plan_, static_cast<uint64_t>(steps));
}

bool Follower::Impl::wants_snapshot(int64_t steps) const {
  const std::lock_guard lock(mutex_);
  if (!snapshot_asked_ || !digest_ || digest_steps_ != steps) return false;
  return plan_.settled_rounds(static_cast<uint64_t>(steps)) > 0;
}

void Follower::Impl::show(const Activity& activity) {
  if (!settings_.hooks.activity) return;
  const std::string text =
      fmt::format("{} {} {}", static_cast<int>(activity.kind), activity.step, activity.text);
  const std::lock_guard lock(showing_);
  if (text == shown_) return;
  shown_ = text;
  settings_.hooks.activity(activity);
}

// --- the object around it

Follower::Follower(transport::Courier& courier, const Signer& signer,
                   const membership::RecipePlan& plan, FollowerSettings settings)
    : impl_(std::make_shared<Impl>(courier, signer, plan, std::move(settings))) {
  impl_->start();
}

Follower::~Follower() { impl_->close(); }

Result<StartState> Follower::wait_start_state() { return impl_->wait_start_state(); }
bool Follower::is_obsolete(const StartState& start) const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->is_obsolete(start);
}
bool Follower::begin(const StartState& start, int64_t completed) {
  return impl_->begin(start, completed);
}
ReplayedRounds Follower::replayed() const { return impl_->replayed(); }
void Follower::end() { impl_->end(); }
std::optional<std::string> Follower::starts_over() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->starts_over_;
}
bool Follower::stopped() const { return impl_->stopped(); }
void Follower::end_waits() {
  const std::lock_guard lock(impl_->mutex_);
  impl_->given_up_ = true;
  impl_->changed_.notify_all();
}
void Follower::announce_leaving(double seconds) { impl_->announce_leaving(seconds); }
int Follower::id() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->own_id().value_or(-1);
}
Result<membership::Opening> Follower::opening(uint64_t round) { return impl_->opening(round); }
Result<Commit> Follower::commit(uint64_t round, uint32_t fragment) {
  return impl_->commit(round, fragment);
}
Result<std::vector<std::shared_ptr<const Bytes>>> Follower::payloads(const Commit& commit) {
  return impl_->payloads(commit);
}
Result<std::shared_ptr<const Bytes>> Follower::sum(const Commit& commit, WireType format,
                                                   float factor) {
  return impl_->sum(commit, format, factor);
}
void Follower::offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds) {
  impl_->offer(round, fragment, std::move(payload), seconds);
}
void Follower::pause_for(double seconds) { impl_->pause_for(seconds); }
void Follower::completed(int64_t steps) { impl_->completed(steps); }
void Follower::trained(int64_t steps, double loss_sum, int64_t tokens) {
  impl_->trained(steps, loss_sum, tokens);
}
void Follower::evaluated(int64_t steps, const std::string& set, double loss_sum, int64_t tokens) {
  impl_->evaluated(steps, set, loss_sum, tokens);
}
void Follower::digest(int64_t steps, uint64_t digest) { impl_->digest(steps, digest); }
std::optional<Place> Follower::place(int64_t steps) const { return impl_->place(steps); }
bool Follower::wants_snapshot(int64_t steps) const { return impl_->wants_snapshot(steps); }
void Follower::store_snapshot(int64_t steps, Bytes content) {
  impl_->store_snapshot(steps, std::move(content));
}

}  // namespace thinwire::member
