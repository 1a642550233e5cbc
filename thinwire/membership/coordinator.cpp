#include "thinwire/membership/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "thinwire/base/units.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::membership {
namespace {

// Whoever was away for fewer rounds offers again what has counted, and need not hear of it.
constexpr size_t kClosingsKept = 8;

bool is_empty(const Record& record) {
  return record.changes.empty() && !record.closing && record.openings.empty();
}

bool admits(const Record& record, const PublicKey& key) {
  return std::ranges::any_of(record.changes, [&](const Change& change) {
    const auto* admission = std::get_if<Admission>(&change);
    return admission != nullptr && admission->key == key;
  });
}

}  // namespace

Coordinator::Coordinator(const RunPlan& plan, const Options& options, const Signer& signer,
                         Verify verify, Founding founding, bool standby, Position remembered)
    : plan_(plan),
      options_(options),
      room_(room_for_members(plan, options)),
      signer_(signer),
      verify_(verify),
      founding_(std::move(founding)),
      hashes_(1),
      remembered_(remembered),
      leads_(!standby) {
  options_.check();
}

std::vector<Action> Coordinator::tick(std::span<const Input> inputs, double now) {
  now_ = clock_.at(now);
  for (const Input& input : inputs) {
    std::visit([this](const auto& one) { receive(one); }, input);
  }
  if (connected_) {
    proceed();
  } else {
    actions_.clear();
  }
  return std::exchange(actions_, {});
}

Result<State> Coordinator::replay(std::span<const Bytes> records, Verify verify) {
  State state;
  for (const Bytes& bytes : records) {
    const Result<Record> record = decode_record(bytes);
    if (!record) return tl::unexpected(record.error());
    if (!is_authentic(bytes, *record, verify)) {
      return fail(FailureKind::kCorruptPayload,
                  fmt::format("record {} is not signed by its writer", record->sequence));
    }
    if (auto applied = state.apply(*record, record_hash(bytes)); !applied) {
      return tl::unexpected(applied.error());
    }
  }
  return state;
}

// --- deciding

void Coordinator::proceed() {
  if (pending_) {
    if (now_ - pending_->sent < options_.retry_s()) return;
    pending_->sent = now_;
    actions_.emplace_back(pending_->append);
    return;
  }
  const uint64_t known = state_.position.sequence;
  if (store_last_ > known) return;  // the stream brings more
  if (store_last_ < known) {
    const uint64_t lost = known - store_last_;
    if (lost <= tail_.size()) {
      append(tail_.from_end(lost), false);
    } else {
      remembered_ = state_.position;
      reset();
    }
    return;
  }
  if (append_supplied()) return;
  if (lacks_remembered()) return await_remembered();
  if (settled()) decide();
}

// Whether a new record may be written. A store that was disconnected may have lost its last
// records, so members that may have them must report first; a run that begins has none. Every
// connected member reads every record, so once most members have reported what they have, those
// that are absent are unlikely to have more. But if a member gave back what the store had lost, the
// store is an older copy, of before several records: then all are waited for.
bool Coordinator::settled() {
  discard_unproven_claims();
  if (!claims_.empty()) {
    ask_for_lost_records();
    return false;
  }
  report_return();
  if (state_.position.sequence == 0) return true;
  if (store_was_empty_) return true;
  heard_enough_ = heard_enough_ || has_heard_enough();
  return heard_enough_;
}

bool Coordinator::has_heard_enough() const {
  const double waited = now_ - *connected_;
  if (waited < options_.settle_s()) return false;
  if (waited >= options_.silence_s()) return true;
  const Reported all = reports_of([](Phase phase) { return !is_gone(phase); });
  // Others were not there when the last round was closed: active members have what they have.
  const Reported active = reports_of([](Phase phase) { return phase == Phase::kActive; });
  if (all.are_all() || (active.members > 0 && active.are_all())) return true;
  if (took_back_) return false;
  const bool half = all.are_half() || (active.members > 0 && active.are_half());
  return half && waited > options_.absent_s();
}

Coordinator::Reported Coordinator::reports_of(bool (*counts)(Phase)) const {
  Reported reported;
  for (int member = 0; std::cmp_less(member, state_.members.size()); ++member) {
    if (!counts(state_.members[static_cast<size_t>(member)].phase)) continue;
    ++reported.members;
    if (observed_.members.at(member).reported) ++reported.reports;
  }
  return reported;
}

// The run was begun before, so it is not begun anew, nor continued from where the store ends.
void Coordinator::await_remembered() {
  const uint64_t known = state_.position.sequence;
  if (remembered_.sequence <= known) {
    actions_.emplace_back(Halt{fmt::format(
        "the store holds another history of the run: its record {} is not the one that was there "
        "before. Put back the store that belongs to this run's folder; to accept the other "
        "history, serve the run in an empty folder",
        remembered_.sequence)});
    return;
  }
  if (!missing_since_) missing_since_ = now_;
  if (!missing_from_) {
    missing_from_ = known + 1;
    actions_.emplace_back(
        Notice{fmt::format("the store has lost the run's records {} to {}; waits for members that "
                           "have them",
                           known + 1, remembered_.sequence)});
  }
  if (!claims_.empty()) ask_for_lost_records();
  if (now_ - *missing_since_ < options_.silence_s()) return;
  actions_.emplace_back(Halt{fmt::format(
      "the store has lost the run's records {} to {}, and no member gave them back within {}. The "
      "run is not begun anew: put back the store, or start the members that were there last with "
      "their folders, and repeat the command; a new run needs another run.dir",
      known + 1, remembered_.sequence, format_seconds(options_.silence_s()))});
}

// Restores the next record, if a member has supplied it. One that does not follow is of another
// history, and so is the replica of whoever supplied it.
bool Coordinator::append_supplied() {
  const uint64_t next = state_.position.sequence + 1;
  while (!supplied_.empty() && supplied_.begin()->first < next) {
    supplied_bytes_ -= supplied_.begin()->second.bytes.size();
    supplied_.erase(supplied_.begin());
  }
  if (supplied_.empty() || supplied_.begin()->first != next) return false;
  Supplied supplied = std::move(supplied_.begin()->second);
  supplied_bytes_ -= supplied.bytes.size();
  supplied_.erase(supplied_.begin());
  if (supplied_.empty()) asked_at_ = now_ - options_.settle_s();  // more can be asked for at once
  State after = state_;
  if (!after.apply(*decode_record(supplied.bytes), record_hash(supplied.bytes))) {
    refuse_claim(supplied.member);
    return false;
  }
  if (!missing_from_) {
    missing_from_ = next;
    actions_.emplace_back(Notice{fmt::format(
        "the store ends at record {} of the run, but members have later ones: this folder, or its "
        "store, is an older copy or lost them; takes them back",
        next - 1)});
  }
  took_back_ = true;
  append(std::move(supplied.bytes), false);
  return true;
}

void Coordinator::report_return() {
  supplied_.clear();
  supplied_bytes_ = 0;
  missing_since_.reset();
  if (!missing_from_) return;
  const uint64_t first = *std::exchange(missing_from_, std::nullopt);
  if (state_.position.sequence < first) return;
  actions_.emplace_back(
      Notice{fmt::format("members gave back the run's records {} to {}, which the store had lost",
                         first, state_.position.sequence)});
}

// A member that has not supplied what it claims to have is on a history that cannot be continued:
// it has nothing usable. Members keep reporting their positions, so the claim must not count again.
// But if it has shown that there were later records, and this coordinator has not gone on without
// them, they must not be lost.
void Coordinator::discard_unproven_claims() {
  std::vector<int> unproven;
  for (const auto& [member, claim] : claims_) {
    if (claim.asked == 0 || now_ - claim.since < options_.silence_s()) continue;
    if (claim.shown <= state_.position.sequence || has_gone_on_) {
      unproven.push_back(member);
      continue;
    }
    actions_.emplace_back(Halt{fmt::format(
        "the store ends at record {} of the run, but a member has record {}, signed by its "
        "coordinator, and nobody has those between: this folder, or its store, is an older copy. "
        "Put back a newer one; or begin a new run in another run.dir, with train.init = a member's "
        "newest checkpoint",
        state_.position.sequence, claim.shown)});
    return;
  }
  for (const int member : unproven) refuse_claim(member);
}

PublicKey Coordinator::author_of(int member) const {
  if (state_.knows(member)) return state_.members[static_cast<size_t>(member)].key;
  return claims_.at(member).stranger;
}

void Coordinator::refuse_claim(int member) {
  const auto claim = claims_.find(member);
  if (claim == claims_.end()) return;
  actions_.emplace_back(Refuse{
      author_of(member),
      fmt::format("its replica is at record {} of another history of the run, whose ledger ends at "
                  "record {}: this member's folder or the coordinator's is an older copy",
                  claim->second.position.sequence, state_.position.sequence)});
  distrusted_.insert(member);
  claims_.erase(claim);
  agenda_.reopen();
  const auto seen = observed_.members.find(member);
  if (seen != observed_.members.end()) seen->second.position.reset();
}

// Asks one member after another, so that one that has nothing does not block the others; the member
// that claims most is asked first.
void Coordinator::ask_for_lost_records() {
  if (now_ - asked_at_ < options_.settle_s() / 2) return;
  const auto next = std::ranges::min_element(claims_, {}, [](const auto& claim) {
    return std::pair(claim.second.asked, UINT64_MAX - claim.second.position.sequence);
  });
  if (next->second.asked == 0) next->second.since = now_;
  asked_at_ = next->second.asked = now_;
  actions_.emplace_back(AskRecords{next->first, state_.position.sequence + 1});
}

std::string Coordinator::waits_for() const {
  const bool has_begun = state_.position.sequence > 0;
  if (!connected_ && store_was_away_) return "the store, which cannot be reached";
  if (!connected_)
    return has_begun ? "the run's records, which the coordinator reads from the store" : "";
  if (lacks_remembered()) {
    return fmt::format("members that have the run's records {} to {}, which the store has lost",
                       state_.position.sequence + 1, remembered_.sequence);
  }
  if (!claims_.empty()) return "members to give back records that the store has lost";
  const bool is_early = now_ - *connected_ < options_.silence_s();
  if (is_early && has_begun && !store_was_empty_ && !heard_enough_ && !has_heard_enough()) {
    return fmt::format("members to report what they have, since the {} was away",
                       store_was_away_ ? "store" : "coordinator");
  }
  return "";
}

void Coordinator::decide() {
  Record record;
  if (!state_.founding) {
    record.changes.emplace_back(founding_);
  } else if (may_decide()) {
    Decision decision = make_decision();
    record = decision.run();
    for (const Refuse& refusal : decision.refusals()) {
      if (leads_) actions_.emplace_back(refusal);
      if (const auto member = state_.find(refusal.key)) {
        observed_.members.at(*member).join_requested = false;
      } else if (!admits(record, refusal.key)) {
        observed_.newcomers.erase(refusal.key);
      }
    }
    if (is_empty(record) && decision.refusals().empty()) agenda_.close(decision);
  }
  if (leads_ && state_.founding) ask_for_snapshot();
  if (is_empty(record)) {
    due_since_.reset();
    return;
  }
  if (!due_since_) due_since_ = now_;
  if (!leads_ && now_ - *due_since_ < options_.takeover_s()) return;
  record.sequence = state_.position.sequence + 1;
  record.previous = state_.position.hash;
  record.writer = signer_.key();
  Bytes bytes = encode_record(record, signer_);
  assert(State(state_).apply(record, record_hash(bytes)));
  append(std::move(bytes), true);
}

bool Coordinator::may_decide() {
  Decision decision = make_decision();
  if (agenda_.is_due(decision)) return true;
  assert(has_nothing_to_decide());
  return false;
}

bool Coordinator::has_nothing_to_decide() const {
  Decision decision = make_decision();
  return is_empty(decision.run()) && decision.refusals().empty();
}

void Coordinator::append(Bytes record, bool own) {
  const Sha256 hash = record_hash(record);
  pending_ = Pending{{store_last_, std::move(record)}, hash, now_, own};
  actions_.emplace_back(pending_->append);
}

void Coordinator::ask_for_snapshot() {
  if (options_.snapshot_every == 0 || state_.finished) return;
  const uint64_t newest = state_.snapshots.rbegin()->first;
  const auto behind =
      std::distance(state_.closed_bytes.upper_bound(newest), state_.closed_bytes.end());
  if (std::cmp_less(behind, snapshot_due())) return;
  if (snapshot_asked_ && awaits_snapshot(*snapshot_asked_)) return;
  std::vector<int> active;
  for (int member = 0; std::cmp_less(member, state_.members.size()); ++member) {
    if (state_.members[static_cast<size_t>(member)].phase == Phase::kActive) {
      active.push_back(member);
    }
  }
  if (active.empty()) return;
  const int member = active[state_.next_round % active.size()];
  snapshot_asked_ = {member, state_.next_round, now_};
  actions_.emplace_back(AskSnapshot{member});
}

// A snapshot may take long to store behind a thin line, and more of them would not come sooner: it
// has half of the rounds in which it is useful.
bool Coordinator::awaits_snapshot(const SnapshotAsked& asked) const {
  if (state_.members[static_cast<size_t>(asked.member)].phase != Phase::kActive) return false;
  return now_ - asked.at < options_.silence_s() ||
         state_.next_round < asked.round + options_.snapshot_every / 2;
}

// --- records

void Coordinator::receive(const RecordRead& read) {
  const Result<Record> record = decode_record(read.record);
  if (!record || !is_by_coordinator(read.record, *record, founding_, verify_)) return;
  const Sha256 hash = record_hash(read.record);
  store_last_ = std::max(store_last_, record->sequence);
  if (record->sequence < hashes_.size()) {
    const bool known = hashes_[record->sequence] == hash;
    if (pending_ && pending_->append.expected_last + 1 == record->sequence) pending_.reset();
    if (!known) reset();
    return;
  }
  if (state_.apply(*record, hash)) {
    apply(*record, read.record, hash);
  } else if (record->sequence == state_.position.sequence + 1 &&
             record->previous != state_.position.hash) {
    reset();
  }
}

// This history differs from the one known here.
void Coordinator::reset() {
  state_ = {};
  hashes_.resize(1);
  tail_.clear();
  claims_.clear();
  distrusted_.clear();
  supplied_.clear();
  supplied_bytes_ = 0;
  missing_from_.reset();
  observed_ = {};
  observed_.heard_at = now_;
  agenda_.reopen();
  closings_.clear();
  snapshot_asked_.reset();
  pending_.reset();
  leads_ = false;
  actions_.emplace_back(Reread{});
}

void Coordinator::apply(const Record& record, const Bytes& bytes, const Sha256& hash) {
  agenda_.reopen();
  heard_enough_ = false;
  hashes_.push_back(hash);
  tail_.push(bytes);
  const bool restored = pending_ && !pending_->own && pending_->hash == hash;
  if (connected_ && record.sequence > connected_last_ && !restored) has_gone_on_ = true;
  if (restored) store_was_empty_ = false;  // it was, but the run was not
  if (pending_ && pending_->append.expected_last + 1 == record.sequence) {
    if (pending_->own) leads_ = pending_->hash == hash;
    pending_.reset();
  } else if (record.writer != signer_.key()) {
    leads_ = false;  // its own record that it did not wait for was written before it restarted
  }
  due_since_.reset();
  missing_since_.reset();
  settle_claims();
  forget_what_is_recorded(record);
}

// Nothing was lost if a claimed record arrives after all: the member had only read it earlier.
void Coordinator::settle_claims() {
  for (auto claim = claims_.begin(); claim != claims_.end();) {
    const Position& position = claim->second.position;
    if (position.sequence > state_.position.sequence) {
      claim->second.since = now_;
      ++claim;
      continue;
    }
    const auto seen = observed_.members.find(claim->first);
    if (seen != observed_.members.end() && hashes_[position.sequence] == position.hash) {
      seen->second.position = position;
    }
    claim = claims_.erase(claim);
  }
}

void Coordinator::forget_what_is_recorded(const Record& record) {
  while (observed_.members.size() < state_.members.size()) {
    const auto id = static_cast<int>(observed_.members.size());
    Seen& fresh = observed_.members[id];
    fresh.at = now_;
    const auto join = observed_.newcomers.find(state_.members[static_cast<size_t>(id)].key);
    if (join == observed_.newcomers.end()) continue;
    fresh.reported = true;
    fresh.down_bytes_s = join->second.down_bytes_s;
    observed_.newcomers.erase(join);
  }
  for (const Opening& opening : record.openings) {
    const uint64_t end = opening.first_step + opening.steps.size();
    if (plan_.decides_after(end)) observed_.evaluation = DueEvaluation{opening, {}, 0};
  }
  for (const Change& change : record.changes) {
    if (const auto* moved = std::get_if<PhaseChange>(&change)) {
      Seen& one = observed_.members[moved->member];
      one.heard = one.join_requested = one.behind = false;
      observed_.lacks.erase(moved->member);
    } else if (const auto* offence = std::get_if<Offence>(&change)) {
      auto& open = observed_.members[offence->member].offences;
      const auto recorded = std::ranges::find(open, offence->kind);
      if (recorded != open.end()) open.erase(recorded);
    } else if (const auto* snapshot = std::get_if<Snapshot>(&change)) {
      observed_.members[snapshot->member].snapshot.reset();
      if (snapshot_asked_ && snapshot_asked_->member == snapshot->member) snapshot_asked_.reset();
    }
  }
  if (record.closing) {
    closings_.push_back(*record.closing);
    if (closings_.size() > kClosingsKept) closings_.pop_front();
    if (closed_at_ > 0) observed_.round_s = now_ - closed_at_;
    closed_at_ = now_;
    measure_pace(*record.closing);
  }
  if (record.closing || !record.openings.empty()) observed_.front_since = now_;
  const uint64_t front = state_.open.empty() ? state_.next_round : state_.open.front().round;
  std::erase_if(observed_.offers, [&](const auto& offer) {
    return offer.first.round < front && !state_.overdue.contains(offer.first);
  });
  take_early_offers();
}

void Coordinator::measure_pace(const Closing& closing) {
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) {
      pace_bytes_ += static_cast<double>(one.bytes);
    }
  }
  const uint64_t next = closing.round + 1;
  if (next < plan_.rounds() && plan_.round(next).steps.empty()) return;
  if (paced_at_ > 0) observed_.pace = {pace_bytes_, now_ - paced_at_};
  paced_at_ = now_;
  pace_bytes_ = 0;
}

}  // namespace thinwire::membership
