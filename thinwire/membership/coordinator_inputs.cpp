// How a coordinator handles members' statements, and the store's coming and going.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::membership {
namespace {

constexpr uint64_t kMaxSuppliedBytes = 32 << 20;     // that wait to be restored
constexpr size_t kMaxUnknownClaims = 64;             // of members that the ledger does not know
constexpr uint64_t kSoonerWhenLacking = 10;          // so many times more often snapshots are made
constexpr uint64_t kMostTokens = uint64_t{1} << 40;  // of one member's part of an evaluation

bool is_possible(const Loss& loss) {
  return std::isfinite(loss.sum) && loss.sum >= 0 && loss.tokens <= kMostTokens &&
         (loss.tokens > 0 || loss.sum == 0);
}

}  // namespace

// A member's message has arrived. If it ends a time in which nobody was heard
// (Decision::is_cut_off), what exceeds report_s of that time counts neither as silence nor as time
// that the round was open.
void Coordinator::hear() {
  const double quiet_s = now_ - observed_.heard_at;
  const double deaf_s = quiet_s - options_.report_s();
  observed_.heard_at = now_;
  if (deaf_s <= 0 || quiet_s >= options_.timeout_s || !state_.has_several_present()) return;
  // Both by the same time: what arrived keeps its place in the round.
  const double open_s = std::min(deaf_s, now_ - observed_.front_since);
  observed_.front_since += open_s;
  for (auto& [operation, arrival] : observed_.offers) arrival.at += open_s;
  if (observed_.evaluation) observed_.evaluation->first_at += open_s;
  for (auto& [member, seen] : observed_.members) {
    const double forgiven_s = std::min(deaf_s, options_.timeout_s - seen.forgiven_s);
    seen.at = std::min(seen.at + forgiven_s, now_);
    seen.forgiven_s += forgiven_s;
  }
}

// Null for a member that the ledger does not know; otherwise records that it is alive.
Seen* Coordinator::seen(int member) {
  hear();
  const auto found = observed_.members.find(member);
  if (found == observed_.members.end()) return nullptr;
  found->second.at = now_;
  found->second.forgiven_s = 0;
  found->second.heard = true;
  found->second.departed = false;
  agenda_.heard(member);
  return &found->second;
}

void Coordinator::receive(const JoinRequest& join) {
  const std::optional<int> member = state_.find(join.key);
  if (!member) {
    if (is_missing(join.position)) return take_stranger(join);
    observed_.newcomers[join.key] = join;
    agenda_.reopen();
    return;
  }
  if (state_.members[static_cast<size_t>(*member)].phase == Phase::kExcluded) {
    actions_.emplace_back(Refuse{join.key, "it is excluded from this run"});
    return;
  }
  Seen* one = seen(*member);
  agenda_.reopen();
  one->join_requested = true;
  one->behind = join.position && join.position->sequence < state_.last_closing;
  one->leaves = false;
  one->down_bytes_s = join.down_bytes_s;
  one->own_rows = join.own_rows;
  take_position(*member, join.position);
}

void Coordinator::receive(const Report& report) {
  Seen* one = seen(report.member);
  if (one == nullptr) {
    if (is_missing(report.position)) claim(report.member, *report.position);
    return;
  }
  one->digest = report.digest;
  take_position(report.member, report.position);
}

// A position on another history counts as none; one beyond the end of the ledger means that the
// store lost records.
void Coordinator::take_position(int member, const std::optional<Position>& position) {
  Seen& one = observed_.members.at(member);
  one.reported = true;
  if (is_missing(position)) return claim(member, *position);
  claims_.erase(member);
  one.position = position;
  if (position && position->hash != hashes_[position->sequence]) one.position.reset();
}

void Coordinator::claim(int member, const Position& position) {
  if (distrusted_.contains(member)) return;
  if (!state_.knows(member) && claims_.size() >= state_.members.size() + kMaxUnknownClaims) return;
  const auto [claim, fresh] = claims_.try_emplace(member);
  if (fresh) claim->second.since = now_;
  claim->second.position = position;
}

// Whoever has a replica was a member, so the records that admitted it were lost as well.
void Coordinator::take_stranger(const JoinRequest& join) {
  constexpr int kStrangers = AskRecords::kStrangers;
  if (distrusted_.contains(kStrangers)) {
    actions_.emplace_back(Refuse{
        join.key, fmt::format("its checkpoint is at record {} of another history of the run, whose "
                              "ledger ends at record {}; choose another run.dir",
                              join.position->sequence, state_.position.sequence)});
    return;
  }
  claim(kStrangers, *join.position);
  claims_.at(kStrangers).stranger = join.key;
}

// Whoever supplies a record, it is one of the run's if a coordinator has signed it.
void Coordinator::receive(const Supply& supply) {
  const auto claim = claims_.find(supply.member);
  if (seen(supply.member) == nullptr && claim == claims_.end()) return;
  const bool was_asked = claim != claims_.end() && claim->second.asked > 0;
  RecordJoiner unasked;  // whole records may come unasked
  for (const Bytes& message : supply.messages) {
    auto bytes = (was_asked ? claim->second.supplied : unasked).take(message);
    if (!bytes || supplied_bytes_ + bytes->size() > kMaxSuppliedBytes) continue;
    const Result<Record> record = decode_record(*bytes);
    if (!record || record->sequence <= state_.position.sequence) continue;
    if (!is_by_coordinator(*bytes, *record, founding_, verify_)) return;
    if (was_asked) claim->second.shown = std::max(claim->second.shown, record->sequence);
    const auto [kept, fresh] = supplied_.try_emplace(record->sequence);
    if (!fresh) continue;
    supplied_bytes_ += bytes->size();
    kept->second = {*std::move(bytes), supply.member};
  }
}

std::string Coordinator::why_refused(const Offer& offer) const {
  const Overdue name{offer.member, offer.round, offer.fragment};
  OverdueTerms terms;
  if (const Opening* opening = state_.opening(offer.round)) {
    const auto operation =
        std::ranges::find(opening->operations, offer.fragment, &PlannedOperation::fragment);
    if (operation == opening->operations.end()) return "the round has no such fragment";
    terms = {{state_.founding->run, opening->epoch, offer.round, offer.fragment},
             weight_of(*opening, offer.member),
             operation->max_bytes};
    if (terms.weight == 0) return "the member is not in the round's roster";
  } else if (const OverdueTerms* late = state_.overdue_terms(name);
             options_.late_counts && late != nullptr) {
    terms = *late;
  } else {
    return fmt::format("round {} is not open", offer.round);
  }
  if (offer.epoch != terms.operation.epoch) {
    return fmt::format("round {} is of epoch {}, not {}", offer.round, terms.operation.epoch,
                       offer.epoch);
  }
  if (offer.bytes > terms.max_bytes) {
    return fmt::format("it has {} bytes, and may have {}", offer.bytes, terms.max_bytes);
  }
  const auto before = observed_.offers.find(name);
  if (before == observed_.offers.end() || before->second.offer.epoch != offer.epoch ||
      before->second.offer.payload == offer.payload) {
    return "";
  }
  if (before->second.refused) return "another one of this member was refused";
  return before->second.stored ? "there is another one of this member already" : "";
}

// Records and statements arrive by different routes, so a member may have read the record that
// opens or reopens its round, and contributed to it, before the record is read here.
bool Coordinator::is_early(const Offer& offer) const {
  const Opening* opening = state_.opening(offer.round);
  const bool reopened = opening != nullptr && offer.epoch == state_.epoch + 1;
  const bool next = offer.round >= state_.next_round &&
                    offer.round <= state_.next_round + plan_.overlap() &&
                    offer.round < plan_.rounds();
  if (!reopened && !next) return false;
  const std::vector<PlannedOperation> operations = plan_.round(offer.round).operations;
  return std::ranges::find(operations, offer.fragment, &PlannedOperation::fragment) !=
         operations.end();
}

// A member repeats its offer until it has read that its round is closed.
bool Coordinator::was_counted(const Offer& offer) const {
  const auto counts = [&](const Commit& commit) {
    const Contribution* const counted = contribution_of(commit, offer.member, offer.round);
    return commit.operation.fragment == offer.fragment && counted != nullptr &&
           counted->payload == offer.payload;
  };
  return std::ranges::any_of(closings_, [&](const Closing& closing) {
    return closing.round >= offer.round && std::ranges::any_of(closing.commits, counts);
  });
}

void Coordinator::take_early_offers() {
  std::map<Overdue, Offer> still;
  for (const auto& [name, offer] : std::exchange(observed_.early, {})) {
    if (is_early(offer)) {
      still.emplace(name, offer);
    } else {
      take_offer(offer);
    }
  }
  observed_.early = std::move(still);
}

void Coordinator::receive(const Offer& offer) {
  if (seen(offer.member) == nullptr || was_counted(offer)) return;
  if (is_early(offer)) {
    observed_.early[{offer.member, offer.round, offer.fragment}] = offer;
  } else {
    take_offer(offer);
  }
}

void Coordinator::take_offer(const Offer& offer) {
  const std::string why = why_refused(offer);
  if (!why.empty()) {
    actions_.emplace_back(
        Refuse{state_.members[static_cast<size_t>(offer.member)].key,
               fmt::format("its contribution to round {}: {}", offer.round, why)});
    return;
  }
  Arrival& arrival = observed_.offers[{offer.member, offer.round, offer.fragment}];
  const bool known = arrival.offer.payload == offer.payload && arrival.offer.epoch == offer.epoch;
  if (known && (arrival.stored || arrival.refused)) return;
  arrival = {offer, now_};
  actions_.emplace_back(AskStored{offer.payload});
}

// Losses that come before the record that opened their round are said again. A member that says an
// impossible one has evaluated, but has no part in the mean.
void Coordinator::receive(const Loss& loss) {
  if (options_.watch.empty() || loss.set != options_.watch || seen(loss.member) == nullptr) return;
  std::optional<DueEvaluation>& due = observed_.evaluation;
  if (!due || loss.step != due->step() || share_of(due->last, loss.member) == nullptr) return;
  if (due->losses.empty()) due->first_at = now_;
  Loss taken = loss;
  if (!is_possible(loss)) taken.sum = taken.tokens = 0;
  due->losses.try_emplace(loss.member, std::move(taken));
}

void Coordinator::receive(const LeaveNotice& notice) {
  if (Seen* one = seen(notice.member)) one->leaves = true;
  agenda_.reopen();
}

void Coordinator::receive(const Departed& departed) {
  const std::optional<int> member = state_.find(departed.key);
  if (member) observed_.members.at(*member).departed = true;
}

// A record's number alone does not identify a state: the store may have lost that record and have
// another one in its place.
void Coordinator::receive(const SnapshotReady& ready) {
  Seen* one = seen(ready.snapshot.member);
  const uint64_t at = ready.snapshot.sequence;
  if (one != nullptr && at < hashes_.size() && hashes_[at] == ready.record) one->snapshot = ready;
  agenda_.reopen();
}

// What a member lacks may be stored again by the one that offered it. Otherwise the member stays
// where it is.
void Coordinator::receive(const Lacks& lacks) {
  const Seen* const one = seen(lacks.member);
  if (one == nullptr) return;
  const auto [found, first] = observed_.lacks.try_emplace(lacks.member);
  Lack& lack = found->second;
  const bool goes_on =
      !first && now_ - lack.heard < options_.silence_s() / 2 && lack.position == one->position;
  if (!goes_on) lack = {.since = now_, .position = one->position};
  lack.heard = now_;
  const bool behind =
      !state_.closed_bytes.empty() &&
      (!lack.position || lack.position->sequence < state_.closed_bytes.rbegin()->first);
  if (lack.lasts || !behind || now_ - lack.since < options_.silence_s()) return;
  lack.lasts = true;
  agenda_.reopen();
}

uint64_t Coordinator::snapshot_due() const {
  const bool lacking = std::ranges::any_of(observed_.lacks, [&](const auto& one) {
    return one.second.lasts && !helps_with(state_, one.first, one.second);
  });
  const uint64_t every = options_.snapshot_every;
  return lacking ? std::max<uint64_t>(every / kSoonerWhenLacking, 1) : every;
}

void Coordinator::receive(const Misconduct& misconduct) {
  if (Seen* one = seen(misconduct.member)) one->offences.push_back(OffenceKind::kConduct);
  agenda_.reopen();
}

void Coordinator::receive(const Dismissed& dismissed) {
  const std::optional<int> member = state_.find(dismissed.key);
  if (!member) return;
  observed_.members.at(*member).dismissed = true;
  agenda_.reopen();
}

void Coordinator::receive(const Acknowledged& acknowledged) {
  const bool of_any = acknowledged.member < 0;
  auto one =
      of_any ? observed_.offers.begin() : observed_.offers.lower_bound({acknowledged.member, 0, 0});
  for (; one != observed_.offers.end(); ++one) {
    auto& [name, arrival] = *one;
    if (!of_any && name.member != acknowledged.member) break;
    if (arrival.offer.payload != acknowledged.payload || arrival.stored || arrival.refused)
      continue;
    arrival.stored = true;
    arrival.at = now_;
    agenda_.heard(name.member);
  }
}

void Coordinator::receive(const PayloadRefused& refused) {
  const Offer& offer = refused.offer;
  const auto found = observed_.offers.find({offer.member, offer.round, offer.fragment});
  if (found == observed_.offers.end() || found->second.offer.payload != offer.payload) return;
  if (std::exchange(found->second.refused, true)) return;
  observed_.members.at(offer.member).offences.push_back(OffenceKind::kPayload);
  agenda_.reopen();
  actions_.emplace_back(
      Refuse{state_.members[static_cast<size_t>(offer.member)].key,
             fmt::format("its contribution to round {}: {}", offer.round, refused.why)});
}

void Coordinator::receive(const StoreConnected& connected) {
  connected_ = now_;
  heard_enough_ = false;
  agenda_.reopen();
  store_was_empty_ = connected.last == 0 && state_.position.sequence == 0;
  store_last_ = connected_last_ = connected.last;
  pending_.reset();
  due_since_.reset();
  claims_.clear();  // members report their positions again
  distrusted_.clear();
  for (auto& [member, seen] : observed_.members) {
    seen.reported = false;
    seen.departed = false;
    seen.at = now_;  // no message could arrive meanwhile
  }
  observed_.heard_at = now_;
  for (auto& [operation, arrival] : observed_.offers) {
    arrival.stored = false;
    if (arrival.refused) continue;
    actions_.emplace_back(AskStored{arrival.offer.payload});
  }
}

void Coordinator::receive(const StoreDisconnected&) {
  store_was_away_ = store_was_away_ || connected_.has_value();
  connected_.reset();
}

}  // namespace thinwire::membership
