#include "thinwire/member/follower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/units.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {

using membership::Phase;

void Follower::Impl::notice_denial() {
  if (refused_) return;
  std::string why = courier_.denied();
  if (why.empty()) return;
  starts_over_ = refused_ = std::move(why);
  changed_.notify_all();
}

// Waits continue for a moment after the member is told to stop, unless nothing can come.
bool Follower::Impl::ended() {
  notice_denial();
  if (given_up_ || starts_over_) return true;
  if (!stopped()) return false;
  if (unreachable_) return true;
  const double now = monotonic_seconds();
  if (!stopped_at_) stopped_at_ = now;
  return now - *stopped_at_ >= std::min(kMaxLingerSeconds, times_.report_s());
}

bool Follower::Impl::wait_shown(Lock& lock, const Activity& activity,
                                const std::function<bool()>& ready) {
  const auto own = waits_.insert(activity.round);
  bool there = ready();
  for (; !there && !ended(); there = ready()) {
    Activity shown = activity;
    if (std::string text = why_longer(lock); !text.empty()) shown.text = std::move(text);
    const bool is_oldest = own == waits_.begin();
    lock.unlock();
    if (is_oldest) show(shown);
    lock.lock();
    if (!ready()) changed_.wait_for(lock, kStopPollInterval);
  }
  waits_.erase(own);
  return there && !given_up_ && !starts_over_;
}

std::string Follower::Impl::why_silent(Lock& lock) {
  lock.unlock();
  const bool connected = courier_.connected();
  lock.lock();
  unreachable_ = !connected;
  if (unreachable_) return "waits until the run can be reached again";
  if (coordinator_heard_ && monotonic_seconds() - *coordinator_heard_ >= times_.absent_s()) {
    return "waits for the coordinator, which has fallen silent";
  }
  return "";
}

std::string Follower::Impl::why_longer(Lock& lock) {
  if (std::string text = why_silent(lock); !text.empty()) return text;
  if (!coordinator_heard_ || coordinator_waits_.empty()) return "";
  return "the run waits for " + coordinator_waits_;
}

const membership::Member* Follower::Impl::own() const {
  const auto id = own_id();
  return id ? &view_.state().members[static_cast<size_t>(*id)] : nullptr;
}

void Follower::Impl::say(Lock& lock, const std::string& text) {
  lock.unlock();
  if (settings_.hooks.message) settings_.hooks.message(text);
  lock.lock();
}

std::optional<std::string> Follower::Impl::refused() {
  const std::lock_guard lock(mutex_);
  notice_denial();
  return refused_;
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
  const Activity waiting{ActivityKind::kWaiting,
                         round,
                         completed_,
                         {},
                         fmt::format("waits for round {} to open", round)};
  if (!wait_shown(lock, waiting, [&] { return view_.round(round) != nullptr; })) return over();
  handed_out_ = std::max(handed_out_, round + 1);
  return view_.round(round)->opening;
}

Result<Commit> Follower::Impl::commit(uint64_t round, uint32_t fragment) {
  Lock lock(mutex_);
  const auto closed = [&] {
    const LedgerRound* entry = view_.round(round);
    return entry != nullptr && entry->closing.has_value();
  };
  Activity waiting{ActivityKind::kWaiting, round, completed_, {}, ""};
  if (!closed()) {
    awaited_ = round;
    send_soon();
    waiting.text = waiting_text(round, waiting.waits_for);
  }
  const bool there = wait_shown(lock, waiting, closed);
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

Activity Follower::Impl::catching_up() const {
  const uint64_t newest = view_.state().next_round;
  std::string text = "catches up";
  if (completed_ > 0 && newest > 0) {
    text += fmt::format(": it has reached round {}, and the run round {}",
                        plan_.round_of(static_cast<uint64_t>(completed_) - 1), newest - 1);
  }
  return {ActivityKind::kCatchingUp, newest, completed_, {}, std::move(text)};
}

Result<std::vector<std::shared_ptr<const Bytes>>> Follower::Impl::payloads(const Commit& commit) {
  const uint64_t round = commit.operation.round;
  Holders holders;
  auto priority = transport::Priority::kRound;
  Activity waiting{ActivityKind::kWaiting,
                   round,
                   0,
                   {},
                   fmt::format("fetches what others sent in round {}", round)};
  {
    const std::lock_guard lock(mutex_);
    waiting.step = completed_;
    const membership::Member* member = own();
    if (member != nullptr && member->phase == Phase::kCatchingUp) {
      priority = transport::Priority::kCatchUp;
      waiting = catching_up();
    }
    holders = holders_of(commit);
  }
  for (const auto& [id, names] : holders) fetcher_.start(id, names, priority);
  std::vector<std::shared_ptr<const Bytes>> payloads;
  for (const Contribution& one : commit.contributions) {
    const transport::BlobId id{one.payload, one.bytes};
    auto payload = fetcher_.wait(id, holders.at(id), priority, [&, said = false]() mutable {
      Lock lock(mutex_);
      if (!said && fetcher_.lacks(id)) send_soon();
      said = said || fetcher_.lacks(id);
      show_why_silent(lock, waiting);
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
  const Activity waiting{ActivityKind::kWaiting,
                         round,
                         completed_,
                         {},
                         fmt::format("waits for the coordinator's sum of round {}", round)};
  if (!wait_shown(lock, waiting, ready)) return over();
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
    Lock lock(mutex_);
    lost = fetcher_.lacks(id);
    show_why_silent(lock);
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
    notice_denial();
    completed_ = steps;
    const membership::Member* member = own();
    const bool trains = member != nullptr && member->phase == Phase::kActive;
    if (!trains) send_soon();
    activity = catching_up();
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

// A replica that is behind reports what it would continue from if it had to.
std::optional<membership::Position> Follower::Impl::position() {
  if (!has_replica_) return checkpoint_ ? std::optional(checkpoint_->closed) : std::nullopt;
  const membership::Member* member = own();
  const bool active = member != nullptr && member->phase == Phase::kActive;
  if (caught_up()) behind_ = false;
  if (!behind_ && (active || caught_up())) {
    replica_ = view_.state().position;
  } else if (const auto at = place_of(view_, plan_, static_cast<uint64_t>(completed_));
             at && at->closed.sequence > replica_.sequence) {
    replica_ = at->closed;
  }
  return replica_;
}

// Acts on what the last record says about this member.
void Follower::Impl::follow_own_phase() {
  const membership::Member* member = own();
  if (settings_.audits) return follow_as_auditor();
  if (member == nullptr) return;
  if (member->phase == Phase::kExcluded && !refused_) refused_ = why_excluded(*member);
  if (has_replica_ && member->phase == Phase::kCatchingUp && member->snapshot &&
      member->phase_since > started_by_) {
    starts_over_ = fmt::format("the coordinator assigned it snapshot {}", *member->snapshot);
  }
  if (refused_ && !starts_over_) starts_over_ = refused_;
  start_over_if_reopened();
}

std::string Follower::Impl::why_excluded(const membership::Member& member) const {
  std::string why = "it is excluded";
  if (member.offences() > 0) why += " after " + counted(member.offences(), "offence");
  if (!last_refusal_.empty()) return fmt::format("{}: {}", why, last_refusal_);
  return member.offences() > 0 ? why : why + ": its key was revoked";
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

void Follower::Impl::show_why_silent(Lock& lock, Activity otherwise) {
  if (std::string text = why_silent(lock); !text.empty()) {
    otherwise = {ActivityKind::kWaiting, otherwise.round, completed_, {}, std::move(text)};
  }
  if (otherwise.text.empty()) return;
  lock.unlock();
  show(otherwise);
  lock.lock();
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
bool Follower::skip(const StartState& start) { return impl_->skip(start); }
bool Follower::begin(const StartState& start, int64_t completed) {
  return impl_->begin(start, completed);
}
ReplayedRounds Follower::replayed() const { return impl_->replayed(); }
void Follower::end() { impl_->end(); }
std::optional<std::string> Follower::starts_over() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->starts_over_;
}
std::optional<std::string> Follower::refused() const { return impl_->refused(); }
bool Follower::stopped() const { return impl_->stopped(); }
void Follower::show_why_silent() {
  Impl::Lock lock(impl_->mutex_);
  impl_->show_why_silent(lock);
}
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
std::map<uint64_t, Bytes> Follower::last_records() const { return impl_->last_records(); }
bool Follower::wants_snapshot(int64_t steps) const { return impl_->wants_snapshot(steps); }
void Follower::store_snapshot(int64_t steps, Bytes content) {
  impl_->store_snapshot(steps, std::move(content));
}
void Follower::decline_snapshot() { impl_->decline_snapshot(); }

}  // namespace thinwire::member
