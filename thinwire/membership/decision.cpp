#include "thinwire/membership/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/units.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::membership {
namespace {

// The digest that most members have; in a tie, the first member's.
AgreedDigest most_frequent(const std::map<int, AgreedDigest>& reports) {
  std::map<uint64_t, int> votes;
  for (const auto& [member, report] : reports) ++votes[report.digest];
  AgreedDigest best = reports.begin()->second;
  for (const auto& [member, report] : reports) {
    if (votes[report.digest] > votes[best.digest]) best = report;
  }
  return best;
}

}  // namespace

Record Decision::run() {
  if (can_evaluate()) evaluate();
  if (state_.finished) {
    for (const auto& [member, seen] : observed_.members) follow(member, seen);
    for (const auto& [key, join] : observed_.newcomers) {
      refusals_.push_back({key, "the run is complete"});
    }
    return std::move(record_);
  }
  compare_digests();
  take_snapshots();
  for (const auto& [member, seen] : observed_.members) {
    count_offences(member, seen);
    follow(member, seen);
  }
  admit();
  if (Arrivals arrived = arrivals(); can_close(arrived)) close();
  open_rounds();
  return std::move(record_);
}

bool Decision::concerns(int member) {
  const Seen& seen = observed_.members.at(member);
  if (!state_.finished) count_offences(member, seen);
  follow(member, seen);
  return !record_.changes.empty() || !refusals_.empty();
}

void Decision::admit() {
  const auto first = static_cast<int>(state_.members.size());
  int id = first;
  uint64_t present = 0;
  for (int member = 0; member < first; ++member) present += is_gone(phase(member)) ? 0 : 1;
  for (const auto& [key, join] : observed_.newcomers) {
    if (state_.find(key)) continue;
    if (std::cmp_equal(id - first, kAdmittedAtOnce)) return;
    if (present++ >= room_) {
      refusals_.push_back({key, fmt::format("the run is full: its records have room for {}",
                                            counted(room_, "member"))});
      continue;
    }
    record_.changes.emplace_back(Admission{id, key});
    note_rows(id, join.own_rows, 0);
    const std::string why =
        too_slow(plan_catch_up(state_, nullptr), join.down_bytes_s, observed_.pace);
    if (why.empty()) {
      start_catching_up(id, nullptr);
    } else {
      refusals_.push_back({key, why});
    }
    ++id;
  }
}

// The new phase of a member that is present, or no longer is. After the last round silence is no
// loss: nobody waits for the member any more.
void Decision::follow(int member, const Seen& seen) {
  const bool is_recorded = state_.members[static_cast<size_t>(member)].rows_per_second > 0;
  if (!is_recorded) note_rows(member, seen.own_rows, 0);
  const bool silent = is_silent(seen.at);
  if (!is_gone(phase(member)) && (seen.leaves || silent)) {
    set_phase(member, seen.leaves ? Phase::kLeft : Phase::kLost);
  } else {
    let_return(member, seen);
  }
}

// How many rows a member's own text has as it says when it is admitted or returns, where that
// divides the rows; `known`: as recorded, 0 if it is not.
void Decision::note_rows(int member, uint64_t rows, float known) {
  const auto counted = static_cast<float>(rows);
  if (options_.shares != config::RowShares::kOwn || rows == 0 || counted == known) return;
  record_.changes.emplace_back(Speed{member, counted});
  speeds_[member] = counted;
}

bool Decision::is_silent(double since) const {
  return !state_.finished && silence(since) >= options_.silence_s();
}

// How long a member last heard at `since` has been silent.
double Decision::silence(double since) const {
  return (is_cut_off() ? observed_.heard_at + options_.report_s() : now_) - since;
}

// Whether nobody is heard although several members are present, each of which reports every
// report_s: then it is the coordinator that cannot be reached, and its members' silence does not
// count. If that lasts for timeout_s, they are gone.
bool Decision::is_cut_off() const {
  const double quiet_s = now_ - observed_.heard_at;
  return quiet_s > options_.report_s() && quiet_s < options_.timeout_s &&
         state_.has_several_present();
}

// Decides how a member catches up if it has returned, or cannot catch up as decided before.
void Decision::let_return(int member, const Seen& seen) {
  const Phase now = phase(member);
  const Member& known = state_.members[static_cast<size_t>(member)];
  const Position* position = seen.position ? &*seen.position : nullptr;
  const bool responds = seen.heard && silence(seen.at) < options_.silence_s() && !seen.leaves;
  if (now == Phase::kWaiting || (now == Phase::kLeft && seen.join_requested) ||
      (now == Phase::kLost && responds)) {
    if (returned_ == kAdmittedAtOnce) return;  // with the next record
    const std::string why =
        too_slow(plan_catch_up(state_, position), seen.down_bytes_s, observed_.pace);
    if (why.empty()) {
      ++returned_;
      start_catching_up(member, position);
      note_rows(member, seen.own_rows, known.rows_per_second);
    } else if (seen.join_requested) {
      refusals_.push_back({known.key, why});
    }
    return;
  }
  if (is_gone(now) || !seen.reported) return;
  // It started over or is on another history, or the snapshot it was to start from is no longer
  // kept.
  const bool behind = position == nullptr || position->sequence < state_.replayable_from();
  const bool served = known.snapshot && state_.snapshots.contains(*known.snapshot);
  if (behind && !served) return start_catching_up(member, position);
  const auto lack = observed_.lacks.find(member);
  if (lack != observed_.lacks.end() && lack->second.lasts &&
      helps_with(state_, member, lack->second)) {
    return start_catching_up(member, nullptr);
  }
  // It was restarted and continues from its checkpoint: nobody waits until it has caught up.
  if (now == Phase::kActive && seen.behind) set_phase(member, Phase::kLate);
}

void Decision::start_catching_up(int member, const Position* position) {
  set_phase(member, Phase::kCatchingUp, plan_catch_up(state_, position).snapshot);
}

void Decision::count_offences(int member, const Seen& seen) {
  const Member& known = state_.members[static_cast<size_t>(member)];
  if (known.phase == Phase::kExcluded) return;
  for (const OffenceKind kind : seen.offences) {
    record_.changes.emplace_back(Offence{member, kind});
  }
  const bool too_many =
      !seen.offences.empty() && known.offences() + seen.offences.size() >= options_.max_offences;
  if (too_many || seen.dismissed) set_phase(member, Phase::kExcluded);
}

// Snapshots of states whose digest is the agreed one. At most one new snapshot per record, so that
// the previous newest one, which members may have been assigned to start from, is kept.
void Decision::take_snapshots() {
  const Snapshot* fresh = nullptr;
  for (const auto& [member, seen] : observed_.members) {
    if (!seen.snapshot || phase(member) != Phase::kActive) continue;
    const Snapshot& made = seen.snapshot->snapshot;
    const auto agreed = state_.agreed_digests.find(seen.snapshot->digest.round);
    if (agreed == state_.agreed_digests.end() || agreed->second != seen.snapshot->digest.digest) {
      continue;
    }
    const auto held = state_.snapshots.find(made.sequence);
    const bool differs = held != state_.snapshots.end() &&
                         (held->second.content != made.content || held->second.bytes != made.bytes);
    const bool known = held != state_.snapshots.end() && held->second.holders.contains(member);
    if (differs || known || made.sequence < state_.replayable_from()) continue;
    if (held == state_.snapshots.end()) {
      // Two members may have made it, and not alike.
      const bool another =
          fresh != nullptr && (fresh->sequence != made.sequence || fresh->content != made.content ||
                               fresh->bytes != made.bytes);
      if (another) continue;
      fresh = &made;
    }
    record_.changes.emplace_back(made);
  }
}

// Replicas that differ from the agreed digest start over from a snapshot. If more than half of the
// active ones share another digest, the agreed one was wrong: only a few members were present when
// it was agreed on.
void Decision::compare_digests() {
  std::map<uint64_t, std::map<int, AgreedDigest>> by_round;
  for (const auto& [member, seen] : observed_.members) {
    if (!seen.digest || phase(member) != Phase::kActive) continue;
    by_round[seen.digest->round][member] = *seen.digest;
  }
  const auto active =
      static_cast<size_t>(std::ranges::count(state_.members, Phase::kActive, &Member::phase));
  bool newest = true;  // of the rounds whose digest is agreed on
  for (auto round = by_round.rbegin(); round != by_round.rend(); ++round) {
    const auto& reports = round->second;
    const auto before = state_.agreed_digests.find(round->first);
    const bool agreed = before != state_.agreed_digests.end();
    if (!agreed && (!newest || 2 * reports.size() <= active)) continue;
    newest = false;
    AgreedDigest best = most_frequent(reports);
    const auto votes = static_cast<size_t>(std::ranges::count_if(
        reports, [&](const auto& report) { return report.second.digest == best.digest; }));
    if (agreed && 2 * votes <= active) best.digest = before->second;
    if (!agreed || best.digest != before->second) record_.changes.emplace_back(best);
    for (const auto& [member, report] : reports) {
      if (report.digest == best.digest) continue;
      set_phase(member, Phase::kCatchingUp, plan_catch_up(state_, nullptr).snapshot);
    }
  }
}

bool Decision::caught_up(int member) const {
  const Phase now = phase(member);
  if (now == Phase::kActive) return true;
  if (phases_.contains(member) || (now != Phase::kLate && now != Phase::kCatchingUp)) return false;
  const auto seen = observed_.members.find(member);
  if (seen == observed_.members.end() || !seen->second.position) return false;
  const uint64_t phase_since = state_.members[static_cast<size_t>(member)].phase_since;
  return seen->second.position->sequence >= std::max(state_.last_closing, phase_since);
}

Phase Decision::phase(int member) const {
  const auto changed = phases_.find(member);
  return changed == phases_.end() ? state_.members[static_cast<size_t>(member)].phase
                                  : changed->second;
}

void Decision::set_phase(int member, Phase phase, std::optional<uint64_t> snapshot) {
  phases_[member] = phase;
  record_.changes.emplace_back(PhaseChange{member, phase, snapshot});
}

}  // namespace thinwire::membership
