#include "thinwire/member/follower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/nkey.h"
#include "thinwire/member/follower_impl.h"

namespace thinwire::member {
namespace {

constexpr std::chrono::milliseconds kStopPollInterval(200);  // while the worker waits

// What waits end with.
tl::unexpected<Failure> over() {
  return fail(FailureKind::kAborted, "this member's replica ends here");
}

}  // namespace

// --- waiting

void Follower::Impl::notice_denial() {
  if (machine_.refused()) return;
  std::string why = courier_.denied();
  if (why.empty()) return;
  machine_.deny(std::move(why));
  changed_.notify_all();
}

// Waits continue for a moment after the member is told to stop, unless nothing can come.
bool Follower::Impl::ended() {
  notice_denial();
  if (given_up_ || machine_.starts_over()) return true;
  if (!stopped()) return false;
  if (unreachable_) return true;
  const double now = monotonic_seconds();
  if (!stopped_at_) stopped_at_ = now;
  return now - *stopped_at_ >= std::min(kMaxLingerSeconds, machine_.times().report_s());
}

bool Follower::Impl::wait_shown(const Activity& activity, const std::function<bool()>& ready) {
  const auto own = waits_.insert(activity.round);
  bool there = ready();
  for (; !there && !ended(); there = ready()) {
    Activity shown = activity;
    if (std::string text = why_longer(); !text.empty()) shown.text = std::move(text);
    const bool is_oldest = own == waits_.begin();
    if (is_oldest) {
      const Unlock meanwhile(mutex_);
      show(shown);
    }
    if (!ready()) changed_.wait_for(mutex_, kStopPollInterval);
  }
  waits_.erase(own);
  return there && !given_up_ && !machine_.starts_over();
}

std::string Follower::Impl::why_silent() {
  bool connected = false;
  {
    const Unlock meanwhile(mutex_);
    connected = courier_.connected();
  }
  unreachable_ = !connected;
  if (unreachable_) return "waits until the run can be reached again";
  if (machine_.coordinator_is_silent(monotonic_seconds())) {
    return "waits for the coordinator, which has fallen silent";
  }
  return "";
}

std::string Follower::Impl::why_longer() {
  if (std::string text = why_silent(); !text.empty()) return text;
  const std::string& waits_for = machine_.coordinator_waits_for();
  return waits_for.empty() ? "" : "the run waits for " + waits_for;
}

std::string Follower::Impl::waiting_text(uint64_t round, const std::vector<int>& missing) const {
  if (machine_.view().round(round) == nullptr) {
    return fmt::format("waits for round {} to open", round);
  }
  if (missing.empty()) return fmt::format("waits for the coordinator to close round {}", round);
  return fmt::format("waits for {} {} in round {}", missing.size() == 1 ? "member" : "members",
                     fmt::join(missing, ", "), round);
}

Activity Follower::Impl::catching_up() const {
  const uint64_t newest = machine_.view().state().next_round;
  const int64_t steps = machine_.steps();
  std::string text = "catches up";
  if (steps > 0 && newest > 0) {
    text += fmt::format(": it has reached round {}, and the run round {}",
                        plan_.round_of(static_cast<uint64_t>(steps) - 1), newest - 1);
  }
  return {ActivityKind::kCatchingUp, newest, steps, {}, std::move(text)};
}

void Follower::Impl::show_why_silent(Activity otherwise) {
  if (std::string text = why_silent(); !text.empty()) {
    otherwise = {ActivityKind::kWaiting, otherwise.round, machine_.steps(), {}, std::move(text)};
  }
  if (otherwise.text.empty()) return;
  const Unlock meanwhile(mutex_);
  show(otherwise);
}

void Follower::Impl::show_why_silent() {
  const Lock lock(mutex_);
  show_why_silent({});
}

void Follower::Impl::show(const Activity& activity) {
  if (!settings_.hooks.activity) return;
  const std::string text =
      fmt::format("{} {} {}", static_cast<int>(activity.kind), activity.step, activity.text);
  const Lock lock(showing_);
  if (text == shown_) return;
  shown_ = text;
  settings_.hooks.activity(activity);
}

void Follower::Impl::tell(const std::string& text) const {
  if (settings_.hooks.message) settings_.hooks.message(text);
}

// --- the replica's life

Result<StartState> Follower::Impl::wait_start_state() {
  const Lock lock(mutex_);
  while (true) {
    notice_denial();
    auto start = machine_.start_state();
    settle();
    if (machine_.refused()) return fail(FailureKind::kRefused, *machine_.refused());
    if (start) return *std::move(start);
    if (stopped()) return over();
    if (std::string text = why_longer(); !text.empty()) {
      const Unlock meanwhile(mutex_);
      show({ActivityKind::kAsking, 0, 0, {}, std::move(text)});
    }
    changed_.wait_for(mutex_, kStopPollInterval);
  }
}

bool Follower::Impl::begin(const StartState& start, int64_t completed) {
  const Lock lock(mutex_);
  if (!machine_.begin(start, completed)) return false;
  given_up_ = false;
  settle();
  return true;
}

std::optional<std::string> Follower::Impl::refused() {
  const Lock lock(mutex_);
  notice_denial();
  return machine_.refused();
}

void Follower::Impl::end_waits() {
  const Lock lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

// --- the worker

Result<membership::Opening> Follower::Impl::opening(uint64_t round) {
  const Lock lock(mutex_);
  const Activity waiting{ActivityKind::kWaiting,
                         round,
                         machine_.steps(),
                         {},
                         fmt::format("waits for round {} to open", round)};
  const auto is_open = [&]() REQUIRES(mutex_) { return machine_.view().round(round) != nullptr; };
  if (!wait_shown(waiting, is_open)) return over();
  return *machine_.hand_out(round);
}

Result<membership::Opening> Follower::Impl::reach(uint64_t round) {
  const bool is_open = with_machine([round](MemberMachine& machine) {
    if (machine.view().round(round) != nullptr) return true;
    machine.await(round);
    return false;
  });
  auto opening = this->opening(round);
  if (is_open) return opening;
  with_machine([](MemberMachine& machine) { machine.await(std::nullopt); });
  return opening;
}

Result<Commit> Follower::Impl::commit(uint64_t round, uint32_t fragment) {
  const Lock lock(mutex_);
  const auto closed = [&]() REQUIRES(mutex_) { return machine_.closing(round) != nullptr; };
  Activity waiting{ActivityKind::kWaiting, round, machine_.steps(), {}, ""};
  if (!closed()) {
    machine_.await(round);
    waiting.waits_for = machine_.missing(round);
    waiting.text = waiting_text(round, waiting.waits_for);
    settle();
  }
  const bool there = wait_shown(waiting, closed);
  machine_.await(std::nullopt);
  if (!there) return over();
  for (const Commit& commit : machine_.closing(round)->commits) {
    if (commit.operation.fragment == fragment) return commit;
  }
  return fail(FailureKind::kCorruptPayload,
              fmt::format("round {} has no operation {}", round, fragment));
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
    const Lock lock(mutex_);
    waiting.step = machine_.steps();
    const membership::Member* member = machine_.own();
    if (member != nullptr && member->phase == membership::Phase::kCatchingUp) {
      priority = transport::Priority::kCatchUp;
      waiting = catching_up();
    }
    holders = machine_.holders_of(commit);
  }
  for (const auto& [id, names] : holders) fetcher_.start(id, names, priority);
  std::vector<std::shared_ptr<const Bytes>> payloads;
  for (const Contribution& one : commit.contributions) {
    const transport::BlobId id{one.payload, one.bytes};
    auto payload = fetcher_.wait(id, holders.at(id), priority, [&, said = false]() mutable {
      const Lock lock(mutex_);
      if (!said && fetcher_.lacks(id)) {
        machine_.act_soon();
        settle();
      }
      said = said || fetcher_.lacks(id);
      show_why_silent(waiting);
      return ended();
    });
    if (!payload) return tl::unexpected(payload.error());
    payloads.push_back(*payload);
  }
  with_machine([&](MemberMachine& machine) {
    for (const auto& [id, names] : holders) machine.taken(id);
  });
  return payloads;
}

Result<std::shared_ptr<const Bytes>> Follower::Impl::sum(const Commit& commit, float factor) {
  const uint64_t round = commit.operation.round;
  const std::vector<Contribution> listed = sync::summed(commit);
  MemberMachine::SumSaid found;
  bool fits = false;
  {
    const Lock lock(mutex_);
    if (!machine_.forms_sum(commit)) return nullptr;
    const Sha256 contributions = sync::digest_of(listed);
    const double until = machine_.sum_is_due(round);
    const auto ready = [&]() REQUIRES(mutex_) {
      return machine_.sum_said(contributions) != nullptr || monotonic_seconds() >= until;
    };
    const Activity waiting{ActivityKind::kWaiting,
                           round,
                           machine_.steps(),
                           {},
                           fmt::format("waits for the coordinator's sum of round {}", round)};
    if (!wait_shown(waiting, ready)) return over();
    if (machine_.sum_said(contributions) == nullptr) machine_.form_sum(contributions);
    found = *machine_.sum_said(contributions);
    fits = machine_.fits_sum(found.sum, listed);
  }
  Result<std::shared_ptr<const Bytes>> sum = nullptr;
  if (fits && std::bit_cast<uint32_t>(found.sum.factor) == std::bit_cast<uint32_t>(factor)) {
    sum = fetch(found.id(), found.holder, transport::Priority::kRound);
  }
  with_machine([&](MemberMachine& machine) { machine.taken(found.id()); });
  return sum;
}

Result<std::shared_ptr<const Bytes>> Follower::Impl::fetch(const transport::BlobId& id,
                                                           const std::string& holder,
                                                           transport::Priority priority) {
  bool lost = false;
  auto blob = fetcher_.wait(id, {holder}, priority, [&] {
    const Lock lock(mutex_);
    lost = fetcher_.lacks(id);
    show_why_silent({});
    return lost || ended();
  });
  if (!blob && lost) return nullptr;
  return blob;
}

Result<std::shared_ptr<const Bytes>> Follower::Impl::payload(const Contribution& contribution) {
  const transport::BlobId id{contribution.payload, contribution.bytes};
  std::string holder;
  {
    const Lock lock(mutex_);
    const auto member = static_cast<size_t>(contribution.member);
    holder = participant_name(machine_.view().state().members[member].key);
  }
  auto payload = fetch(id, holder, transport::Priority::kCatchUp);
  fetcher_.forget(id);
  return payload;
}

// What it offers itself need not be fetched. It is there before anybody may ask for it.
void Follower::Impl::offer(uint64_t round, uint32_t fragment, Bytes payload,
                           const membership::Spent& spent) {
  const auto blob = std::make_shared<const Bytes>(std::move(payload));
  const transport::BlobId id = transport::blob_id(*blob);
  const Lock lock(mutex_);
  if (!machine_.offer(round, fragment, id, blob, spent)) return;
  fetcher_.keep(id, blob);
  settle();
}

Result<std::vector<membership::Evaluation>> Follower::Impl::evaluations(int64_t steps, bool due) {
  const auto step = static_cast<uint64_t>(steps);
  const Lock lock(mutex_);
  const Activity waiting{ActivityKind::kWaiting,
                         machine_.view().state().next_round,
                         steps,
                         {},
                         fmt::format("waits for the others' losses after step {}", steps)};
  const auto decided = [&]() REQUIRES(mutex_) {
    return !due || machine_.view().state().evaluated.step >= step;
  };
  if (!wait_shown(waiting, decided)) return over();
  std::vector<membership::Evaluation> evaluations = machine_.view().evaluations();
  std::erase_if(evaluations, [step](const auto& one) { return one.step > step; });
  return evaluations;
}

void Follower::Impl::pause_for(double seconds) {
  const Lock lock(mutex_);
  const Stopwatch watch;
  while (!ended() && watch.seconds() < seconds) {
    const std::chrono::duration<double> left(seconds - watch.seconds());
    changed_.wait_for(mutex_, std::min<std::chrono::duration<double>>(left, kStopPollInterval));
  }
}

void Follower::Impl::completed(int64_t steps) {
  Activity activity;
  {
    const Lock lock(mutex_);
    notice_denial();
    machine_.completed(steps);
    activity = catching_up();
    if (machine_.trains()) {
      activity = {ActivityKind::kTraining, activity.round, steps, {}, "trains"};
    }
    if (settings_.machine.audits) {
      activity = {ActivityKind::kAuditing, activity.round, steps, {}, "follows the run"};
    }
    settle();
  }
  show(activity);
}

// --- the object around it

Follower::Follower(transport::Courier& courier, const Signer& signer,
                   const membership::StepPlan& plan, FollowerSettings settings)
    : impl_(std::make_shared<Impl>(courier, signer, plan, std::move(settings))) {
  impl_->start();
}

Follower::~Follower() { impl_->close(); }

Result<StartState> Follower::wait_start_state() { return impl_->wait_start_state(); }
bool Follower::is_obsolete(const StartState& start) const {
  return impl_->look([&](const MemberMachine& one) { return one.is_obsolete(start); });
}
bool Follower::skip(const StartState& start) {
  return impl_->with_machine([&](MemberMachine& one) { return one.skip(start); });
}
bool Follower::begin(const StartState& start, int64_t completed) {
  return impl_->begin(start, completed);
}
ReplayedRounds Follower::replayed() const {
  return impl_->look([](const MemberMachine& one) { return one.replayed(); });
}
void Follower::end() {
  impl_->with_machine([](MemberMachine& one) { one.end(); });
}
std::optional<std::string> Follower::starts_over() const {
  return impl_->look([](const MemberMachine& one) { return one.starts_over(); });
}
std::optional<std::string> Follower::refused() const { return impl_->refused(); }
bool Follower::stopped() const { return impl_->stopped(); }
void Follower::show_why_silent() { impl_->show_why_silent(); }
void Follower::end_waits() { impl_->end_waits(); }
void Follower::announce_leaving(double seconds) { impl_->announce_leaving(seconds); }
int Follower::id() const {
  return impl_->look([](const MemberMachine& one) { return one.own_id().value_or(-1); });
}
Result<membership::Opening> Follower::opening(uint64_t round) { return impl_->opening(round); }
Result<membership::Opening> Follower::reach(uint64_t round) { return impl_->reach(round); }
Result<Commit> Follower::commit(uint64_t round, uint32_t fragment) {
  return impl_->commit(round, fragment);
}
Result<std::vector<std::shared_ptr<const Bytes>>> Follower::payloads(const Commit& commit) {
  return impl_->payloads(commit);
}
Result<std::shared_ptr<const Bytes>> Follower::sum(const Commit& commit, float factor) {
  return impl_->sum(commit, factor);
}
void Follower::offer(uint64_t round, uint32_t fragment, Bytes payload,
                     const membership::Spent& spent) {
  impl_->offer(round, fragment, std::move(payload), spent);
}
Result<std::vector<membership::Evaluation>> Follower::evaluations(int64_t steps, bool due) {
  return impl_->evaluations(steps, due);
}
bool Follower::may_end_after(uint64_t steps) const {
  return impl_->look([steps](const MemberMachine& one) {
    const membership::State& state = one.view().state();
    return state.evaluated.step < steps || (state.finished && state.evaluated.step == steps);
  });
}
void Follower::pause_for(double seconds) { impl_->pause_for(seconds); }
void Follower::completed(int64_t steps) { impl_->completed(steps); }
void Follower::trained(int64_t steps, double loss_sum, int64_t tokens) {
  impl_->with_machine([&](MemberMachine& one) { one.trained(steps, loss_sum, tokens); });
}
void Follower::evaluated(int64_t steps, const std::string& set, double loss_sum, int64_t tokens) {
  impl_->with_machine([&](MemberMachine& one) { one.evaluated(steps, set, loss_sum, tokens); });
}
void Follower::digest(int64_t steps, uint64_t digest) {
  impl_->with_machine([&](MemberMachine& one) { one.digest(steps, digest); });
}
std::optional<Place> Follower::place(int64_t steps) const {
  return impl_->look([&](const MemberMachine& one) { return one.place(steps); });
}
std::map<uint64_t, Bytes> Follower::last_records() const {
  return impl_->look([](const MemberMachine& one) { return one.last_records(); });
}
bool Follower::wants_snapshot(int64_t steps) const {
  return impl_->look([&](const MemberMachine& one) { return one.wants_snapshot(steps); });
}
void Follower::store_snapshot(int64_t steps, Bytes content) {
  impl_->store_snapshot(steps, std::move(content));
}
void Follower::decline_snapshot() {
  impl_->with_machine([](MemberMachine& one) { one.decline_snapshot(); });
}
std::optional<membership::Closing> Follower::closing(uint64_t round) const {
  return impl_->look([&](const MemberMachine& one) -> std::optional<membership::Closing> {
    const membership::Closing* closing = one.closing(round);
    return closing == nullptr ? std::nullopt : std::optional(*closing);
  });
}
Result<std::shared_ptr<const Bytes>> Follower::payload(const Contribution& contribution) {
  return impl_->payload(contribution);
}
void Follower::report(const membership::Audit& audit) { impl_->say(audit); }

}  // namespace thinwire::member
