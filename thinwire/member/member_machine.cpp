// What a member makes of the ledger, and of what its worker does.
#include "thinwire/member/member_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::member {
namespace {

using membership::Phase;

constexpr uint64_t kMaxKeptBytes = 64 << 20;
constexpr size_t kRoundsNoted = 64;           // closed recently
constexpr size_t kMaxRecordBytes = 16 << 20;  // in a checkpoint

membership::Options times_of(double timeout_s) {
  membership::Options options;
  options.timeout_s = timeout_s;
  return options;
}

}  // namespace

MemberMachine::MemberMachine(const PublicKey& self, const membership::StepPlan& plan,
                             MachineSettings settings)
    : self_(self),
      plan_(plan),
      settings_(std::move(settings)),
      times_(times_of(settings_.timeout_s)),
      retry_s_(std::min(1.0, times_.settle_s())),
      view_(settings_.founding, settings_.verify),
      checkpoint_(settings_.checkpoint),
      kept_(kMaxKeptBytes) {}

const membership::Member* MemberMachine::own() const {
  const auto id = own_id();
  return id ? &view_.state().members[static_cast<size_t>(*id)] : nullptr;
}

bool MemberMachine::trains() const {
  const membership::Member* member = own();
  return member != nullptr && member->phase == Phase::kActive;
}

// --- the ledger

void MemberMachine::begin_reading() {
  read_ = 0;
  joiner_ = {};
  end_.reset();
}

void MemberMachine::stream_ends(std::optional<uint64_t> last) {
  asks_for_end_ = !last;
  if (last) end_ = last;
}

// Payloads are fetched while the worker may still be computing a later round. When it waits for
// them, its next payload is on its way up, and requests would queue behind that.
void MemberMachine::read(uint64_t place, Bytes message, double now) {
  read_ = place;
  const std::optional<Bytes> record = joiner_.take(std::move(message));
  const LedgerView::Taken taken = record ? view_.take(*record) : LedgerView::Taken::kIgnored;
  if (taken == LedgerView::Taken::kIgnored) return;
  if (taken == LedgerView::Taken::kForked) {
    const LedgerView::Fork& fork = view_.fork();
    starts_over_ =
        fmt::format("the ledger's history changed: the coordinator {} signed another record {}",
                    key_id(fork.writer), fork.sequence);
    reads_again_ = true;
    return act_soon();
  }
  follow_own_phase();
  drop_spent_offers();
  if (!trains()) act_soon();
  const auto decoded = membership::decode_record(*record);
  if (!decoded) return;
  if (decoded->closing && has_read_all()) {
    closed_at_[decoded->closing->round] = now;
    if (closed_at_.size() > kRoundsNoted) closed_at_.erase(closed_at_.begin());
  }
  fetch_early(closed_by(*decoded));
}

// Acts on what the last record says about this member.
void MemberMachine::follow_own_phase() {
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

std::string MemberMachine::why_excluded(const membership::Member& member) const {
  std::string why = "it is excluded";
  if (member.offences() > 0) why += " after " + counted(member.offences(), "offence");
  if (!last_refusal_.empty()) return fmt::format("{}: {}", why, last_refusal_);
  return member.offences() > 0 ? why : why + ": its key was revoked";
}

void MemberMachine::start_over_if_reopened() {
  if (has_replica_ && view_.reopened() && *view_.reopened() < handed_out_) {
    starts_over_ = fmt::format("round {} was reopened with different members", *view_.reopened());
  }
}

// An auditor is no member, so nobody tells it to start over.
void MemberMachine::follow_as_auditor() {
  if (refused_ && !starts_over_) starts_over_ = refused_;
  if (!has_replica_ || starts_over_) return;
  start_over_if_reopened();
  const membership::State& state = view_.state();
  for (const auto& [round, digest] : digests_) {
    const auto agreed = state.agreed_digests.find(round);
    if (agreed == state.agreed_digests.end() || agreed->second == digest) continue;
    starts_over_ = fmt::format("its weights after round {} differ from the members'", round);
    return;
  }
  const uint64_t needed = plan_.settled_rounds(static_cast<uint64_t>(completed_));
  if (needed >= state.next_round) return;
  const LedgerRound* round = view_.round(needed);
  const bool is_covered =
      round == nullptr || (round->closing && round->closed_at <= state.replayable_from());
  if (is_covered) {
    starts_over_ = fmt::format("it is at round {}, before the oldest snapshot", needed);
  }
}

bool MemberMachine::may_count(uint64_t round, uint32_t fragment) const {
  const membership::State& state = view_.state();
  if (state.opening(round) != nullptr || round >= state.next_round) return true;
  const auto self = own_id();
  return settings_.late == config::LateContributions::kCount && self &&
         state.overdue.contains({*self, round, fragment});
}

void MemberMachine::drop_spent_offers() {
  const membership::State& state = view_.state();
  const uint64_t front = state.open.empty() ? state.next_round : state.open.front().round;
  std::erase_if(offers_, [&](const auto& offer) {
    return !may_count(offer.first.first, offer.first.second);
  });
  std::erase_if(offers_received_, [&](const auto& round) { return round.first < front; });
  drop_kept_payloads();
  if (!snapshot_) return;
  const auto held = state.snapshots.find(snapshot_->snapshot.sequence);
  const bool known =
      held != state.snapshots.end() && held->second.holders.contains(snapshot_->snapshot.member);
  const bool obsolete = snapshot_->snapshot.sequence < state.replayable_from();
  if (known || obsolete) snapshot_.reset();
}

// Drops payloads that are no longer replayed.
void MemberMachine::drop_kept_payloads() {
  const membership::State& state = view_.state();
  while (const auto round = kept_.oldest_round()) {
    const LedgerRound* entry = view_.round(*round);
    const bool long_closed = entry == nullptr && *round < state.next_round;
    const bool covered =
        entry != nullptr && entry->closing && entry->closed_at <= state.replayable_from();
    if (!long_closed && !covered) return;
    kept_.forget_before(*round + 1);
  }
}

bool MemberMachine::has_begun(uint64_t round) const {
  return has_replica_ && trains() && round < handed_out_;
}

Holders MemberMachine::holders_of(const Commit& commit) const {
  Holders holders;
  for (const Contribution& one : commit.contributions) {
    const PublicKey& key = view_.state().members[static_cast<size_t>(one.member)].key;
    holders[{one.payload, one.bytes}].push_back(participant_name(key));
  }
  return holders;
}

Holders MemberMachine::closed_by(const membership::Record& record) const {
  if (!record.closing || !has_begun(record.closing->round)) return {};
  Holders closed;
  for (const Commit& commit : record.closing->commits) {
    if (forms_sum(commit) && !is_left_to_members(commit)) continue;
    for (auto& [id, names] : holders_of(commit)) closed[id] = std::move(names);
  }
  return closed;
}

void MemberMachine::fetch_early(Holders holders) {
  if (holders.empty()) return;
  for (const auto& [id, names] : holders) early_.insert(id);
  act(FetchEarly{std::move(holders)});
}

// --- the worker

const membership::Opening* MemberMachine::hand_out(uint64_t round) {
  const LedgerRound* entry = view_.round(round);
  if (entry == nullptr) return nullptr;
  handed_out_ = std::max(handed_out_, round + 1);
  return &entry->opening;
}

const membership::Closing* MemberMachine::closing(uint64_t round) const {
  const LedgerRound* entry = view_.round(round);
  return entry == nullptr || !entry->closing ? nullptr : &*entry->closing;
}

void MemberMachine::await(std::optional<uint64_t> round) {
  awaited_ = round;
  if (round) act_soon();
}

void MemberMachine::taken(const transport::BlobId& id) {
  early_.erase(id);
  act(Forget{id});
}

void MemberMachine::completed(int64_t steps) {
  completed_ = steps;
  if (!trains()) act_soon();
}

void MemberMachine::digest(int64_t steps, uint64_t digest) {
  if (!plan_.ends_after(static_cast<uint64_t>(steps))) return;
  digest_ = {plan_.last_ended(static_cast<uint64_t>(steps)), digest};
  digest_steps_ = steps;
  if (settings_.audits) {
    digests_[digest_->round] = digest;
    if (digests_.size() > membership::State::kDigestsKept) digests_.erase(digests_.begin());
    follow_as_auditor();
  }
  act_soon();
}

// Whether the replica has applied every record: it has completed all open steps, or needs a round
// to close before its next one.
bool MemberMachine::caught_up() const {
  if (static_cast<uint64_t>(completed_) == view_.state().next_step) return true;
  return awaited_ && closing(*awaited_) == nullptr;
}

// A replica that is behind reports what it would continue from if it had to.
std::optional<membership::Position> MemberMachine::position() {
  if (!has_replica_) return checkpoint_ ? std::optional(checkpoint_->closed) : std::nullopt;
  if (caught_up()) behind_ = false;
  if (!behind_ && (trains() || caught_up())) {
    replica_ = view_.state().position;
  } else if (const auto at = place_of(view_, plan_, static_cast<uint64_t>(completed_));
             at && at->closed.sequence > replica_.sequence) {
    replica_ = at->closed;
  }
  return replica_;
}

std::optional<Place> MemberMachine::place(int64_t steps) const {
  return place_of(view_, plan_, static_cast<uint64_t>(steps));
}

std::map<uint64_t, Bytes> MemberMachine::last_records() const {
  return view_.last_records(kMaxRecordBytes);
}

// --- snapshots

bool MemberMachine::wants_snapshot(int64_t steps) const {
  if (!snapshot_asked_ || !digest_ || digest_steps_ != steps) return false;
  return plan_.settled_rounds(static_cast<uint64_t>(steps)) > 0;
}

std::optional<membership::SnapshotReady> MemberMachine::snapshot_ready(
    int64_t steps, const transport::BlobId& content) {
  snapshot_asked_ = false;
  const uint64_t settled = plan_.settled_rounds(static_cast<uint64_t>(steps));
  const LedgerRound* last = settled == 0 ? nullptr : view_.round(settled - 1);
  if (last == nullptr || !last->closing || !digest_ || !own_id()) return std::nullopt;
  return membership::SnapshotReady{{*own_id(), last->closed_at, content.name, content.bytes},
                                   *digest_,
                                   view_.position(last->closed_at).hash};
}

void MemberMachine::snapshot_stored(const membership::SnapshotReady& ready) {
  if (!view_.has({ready.snapshot.sequence, ready.record})) return;  // the history has changed
  snapshot_ = ready;
  act_soon();
}

// --- for display

std::vector<int> MemberMachine::missing(uint64_t round) const {
  std::vector<int> missing;
  const LedgerRound* entry = view_.round(round);
  if (entry == nullptr) return missing;
  const auto received = offers_received_.find(round);
  for (const membership::Share& share : entry->opening.roster) {
    const bool offered =
        received != offers_received_.end() && received->second.contains(share.member);
    if (!offered && own_id() != share.member) missing.push_back(share.member);
  }
  return missing;
}

}  // namespace thinwire::member
