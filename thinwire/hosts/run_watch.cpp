#include "thinwire/hosts/run_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/names.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/train/task_files.h"
#include "thinwire/train/worker.h"

namespace thinwire::hosts {
LossBoard::LossBoard(std::set<std::string> sets, std::set<std::string> scores)
    : sets_(std::move(sets)), scores_(std::move(scores)) {
  for (const std::string& set : std::set(sets_)) sets_.insert(set + train::kOwnWeightsSuffix);
  sets_.insert(membership::Loss::kTraining);
  sets_.insert(scores_.begin(), scores_.end());
}

LossBoard loss_board(const ServedRun& run) {
  std::set<std::string> sets;
  for (const DescribedSet& set : run.description.sets) sets.insert(set.name);
  sets.erase("train");
  return LossBoard(std::move(sets), {run.scores.begin(), run.scores.end()});
}

void LossBoard::add(const membership::Loss& loss, int64_t newest) {
  const auto step = static_cast<int64_t>(loss.step);
  if (!sets_.contains(loss.set) || loss.step > static_cast<uint64_t>(newest)) return;
  const auto taken = taken_.find(loss.set);
  if (taken != taken_.end() && step <= taken->second) return;
  Sum& sum = sums_[{loss.set, step}];
  if (!sum.members.insert(loss.member).second) return;
  const auto weight = static_cast<double>(loss.tokens);
  sum.loss += loss.sum;
  sum.weight += weight;
}

size_t LossBoard::reports(const std::string& set, int64_t step) const {
  const auto found = sums_.find({set, step});
  return found == sums_.end() ? 0 : found->second.members.size();
}

std::vector<LossBoard::Point> LossBoard::take(const std::string& set, int64_t last) {
  std::vector<Point> points;
  for (auto one = sums_.lower_bound({set, 0}); one != sums_.end();) {
    const auto& [name, step] = one->first;
    if (name != set || step > last) break;
    const Sum& sum = one->second;
    if (sum.weight > 0) {
      const bool score = scores_.contains(set);
      const double value =
          score ? train::score_value(set, sum.loss, sum.weight) : sum.loss / sum.weight;
      points.push_back({set, step, value, score});
    }
    taken_[set] = step;
    one = sums_.erase(one);
  }
  return points;
}

std::vector<LossBoard::Point> LossBoard::take_all(int64_t trained, int64_t evaluated) {
  std::vector<Point> all;
  for (const std::string& set : sets_) {
    const bool is_training = set == membership::Loss::kTraining;
    for (Point& point : take(set, is_training ? trained : evaluated)) {
      all.push_back(std::move(point));
    }
  }
  return all;
}

std::vector<LossBoard::Point> LossBoard::take_reported(int64_t step, size_t members) {
  std::vector<Point> all;
  for (const std::string& set : sets_) {
    if (set == membership::Loss::kTraining || reports(set, step) < members) continue;
    for (Point& point : take(set, step)) all.push_back(std::move(point));
  }
  return all;
}

namespace {

using membership::Phase;
using page::ActivityKind;

constexpr size_t kNamed = 4;  // missing members that are listed by id

bool takes_part(const membership::Opening& opening, int member) {
  return share_of(opening, member) != nullptr;
}

bool has_arrived(const std::map<int, serve::LatestReport>& reports, int member, uint64_t round) {
  const auto one = reports.find(member);
  return one != reports.end() && one->second.arrived && *one->second.arrived >= round;
}

std::string who_is_missing(const membership::Opening& opening,
                           const std::map<int, serve::LatestReport>& reports) {
  std::vector<std::string> missing;
  for (const membership::Share& share : opening.roster) {
    if (has_arrived(reports, share.member, opening.round)) continue;
    missing.push_back(std::to_string(share.member));
  }
  if (missing.empty()) return fmt::format("waits for round {} to be closed", opening.round);
  const size_t all = missing.size();
  const std::string more = all > kNamed ? fmt::format(" and {} more", all - kNamed) : "";
  missing.resize(std::min(all, kNamed));
  return fmt::format("waits for member{} {}{} in round {}", all > 1 ? "s" : "",
                     fmt::join(missing, ", "), more, opening.round);
}

std::string silence(const serve::LatestReport* report) {
  if (report == nullptr) return "no message since the coordinator started";
  return fmt::format("silent for {}", format_seconds(report->silent_s));
}

ActivityKind activity_of(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
    case Phase::kActive:
      return ActivityKind::kWaiting;
    case Phase::kCatchingUp:
    case Phase::kLate:
      return ActivityKind::kCatchingUp;
    case Phase::kLeft:
      return ActivityKind::kLeft;
    case Phase::kLost:
    case Phase::kExcluded:
      break;
  }
  return ActivityKind::kLost;
}

std::string why_in(Phase phase, const serve::LatestReport* report, uint64_t offences) {
  switch (phase) {
    case Phase::kWaiting:
      return "admitted; its link is too slow to catch up";
    case Phase::kCatchingUp:
      return "fetches a snapshot or replays the rounds that it missed";
    case Phase::kLate:
      return "missed its last round; it has no rows until it has caught up";
    case Phase::kLeft:
      return "left the run; it may return";
    case Phase::kLost:
      return silence(report);
    case Phase::kExcluded:
      return offences == 0 ? "excluded: its key was revoked"
                           : fmt::format("excluded after {}", counted(offences, "offence"));
    case Phase::kActive:
      break;
  }
  return "";
}

std::string_view what(membership::OffenceKind kind) {
  return kind == membership::OffenceKind::kConduct ? "misbehaves"
                                                   : "sent a payload that does not count";
}

}  // namespace

void MembersNow::describe_active(page::MemberNow& member, const serve::LatestReport& report) {
  member.activity = ActivityKind::kWaiting;
  const membership::Opening* oldest = nullptr;
  for (const membership::Opening& opening : state_.open) {
    if (!takes_part(opening, member.id)) continue;
    if (oldest == nullptr) oldest = &opening;
    if (report.offered && *report.offered >= opening.round) continue;
    member.activity = ActivityKind::kComputing;
    member.round = opening.round;
    return;
  }
  if (oldest == nullptr) {
    member.why = "waits for its first round";
    return;
  }
  member.round = oldest->round;
  if (!has_arrived(reports_, member.id, *report.offered)) {
    member.activity = ActivityKind::kSending;
    return;
  }
  const auto [why, fresh] = waits_for_.try_emplace(oldest->round);
  if (fresh) why->second = who_is_missing(*oldest, reports_);
  member.why = why->second;
}

page::MemberNow MembersNow::of(int id) {
  const membership::Member& member = state_.members[static_cast<size_t>(id)];
  const auto found = reports_.find(id);
  const serve::LatestReport* own = found == reports_.end() ? nullptr : &found->second;
  page::MemberNow shown;
  shown.id = id;
  shown.name = key_id(member.key);
  shown.offences = member.offences();
  shown.activity = activity_of(member.phase);
  shown.why = why_in(member.phase, own, member.offences());
  if (own != nullptr) {
    shown.compute_s = own->step_seconds;
    shown.down_bytes_s = own->down_bytes_s;
  }
  if (member.phase != Phase::kActive) return shown;
  if (own == nullptr) {
    shown.why = silence(own);
  } else {
    describe_active(shown, *own);
  }
  return shown;
}

void RunWatch::record(const membership::Record& record, bool earlier, double now) {
  if (!earlier) {
    for (const membership::Change& change : record.changes) {
      if (const auto* phase = std::get_if<membership::PhaseChange>(&change)) note(*phase);
      if (const auto* offence = std::get_if<membership::Offence>(&change)) {
        page_.add_fault(offence->member,
                        fmt::format("member {} {}", offence->member, what(offence->kind)));
      }
    }
  }
  if (record.closing) close(*record.closing, earlier, now);
  for (const membership::Change& change : record.changes) {
    const auto* evaluation = std::get_if<membership::Evaluation>(&change);
    if (evaluation == nullptr || !evaluation->ends) continue;
    ended_ = static_cast<int64_t>(evaluation->step);
    show(losses_.take_reported(*ended_, newest_contributors_));
  }
  for (const membership::Opening& opening : record.openings) {
    open_[opening.round] = {opening, now, earlier};
    newest_step_ = static_cast<int64_t>(opening.first_step + opening.steps.size());
    newest_contributors_ = opening.roster.size();
  }
}

void RunWatch::add_loss(const membership::Loss& loss) {
  losses_.add(loss, newest_step_);
  const int64_t last = ended_.value_or(recipe_.train.steps);
  if (static_cast<int64_t>(loss.step) != last) return;
  show(losses_.take_reported(last, newest_contributors_));
}

void RunWatch::show(const std::vector<LossBoard::Point>& losses) {
  for (const LossBoard::Point& point : losses) {
    if (point.set == membership::Loss::kTraining) {
      page_.add_train_loss(point.step, point.loss);
    } else {
      page_.on_event(events::EvalEvent{
          .step = point.step, .name = point.set, .loss = point.loss, .score = point.score});
    }
  }
}

void RunWatch::close(const membership::Closing& closing, bool earlier, double now) {
  const auto found = open_.find(closing.round);
  if (found == open_.end()) return;
  const Opened& opened = found->second;
  page::ClosedRound round;
  round.round = closing.round;
  round.first_step = static_cast<int64_t>(opened.opening.first_step);
  round.steps = static_cast<int64_t>(opened.opening.steps.size());
  if (!earlier && !opened.earlier) round.seconds = now - opened.at;
  for (const membership::Share& share : opened.opening.roster) {
    const bool is_missing = std::ranges::binary_search(closing.missing, share.member);
    if (!is_missing) round.bytes[share.member] = 0;
  }
  uint64_t received = 0;
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) round.bytes[one.member] += one.bytes;
    received += received_for(commit, opened.opening.roster.size());
  }
  round.received = received;
  round.missing = closing.missing;
  open_.erase(found);
  page_.close(round);
  // Everyone who contributed has finished the evaluations before the round's last step.
  const int64_t end = round.first_step + round.steps;
  show(losses_.take_all(end, end - 1));
  if (end == newest_step_) newest_contributors_ = round.bytes.size();
  if (earlier) return;
  for (const int member : closing.missing) {
    page_.add_fault(member,
                    fmt::format("round {} was closed without member {}", round.round, member));
  }
}

// The sum, where the coordinator forms one, or what the others sent.
uint64_t RunWatch::received_for(const Commit& commit, uint64_t members) const {
  if (sums_ && sums_->applies(commit)) return members * sums_->bytes(sync::summed(commit));
  uint64_t sent = 0;
  for (const Contribution& one : commit.contributions) sent += one.bytes;
  return (members - 1) * sent;
}

void RunWatch::note(const membership::PhaseChange& change) {
  const std::string text = fmt::format("member {} is {}", change.member, name_of(change.phase));
  const bool is_fault = change.phase == Phase::kLate || change.phase == Phase::kLost ||
                        change.phase == Phase::kExcluded;
  if (is_fault) return page_.add_fault(change.member, text);
  page_.on_event(events::MessageEvent{0, text});
}

void RunWatch::update(const serve::CoordinatorHost& host, const std::string& obstacle,
                      const std::map<int, Contributed>& contributed) {
  const membership::State state = host.state();
  const auto reports = host.reports();
  std::vector<page::MemberNow> members;
  MembersNow now(state, reports);
  for (int id = 0; std::cmp_less(id, state.members.size()); ++id) {
    members.push_back(now.of(id));
    const PublicKey& key = state.members[static_cast<size_t>(id)].key;
    members.back().name = label_of(key, machine_of_(key));
    const auto own = contributed.find(id);
    if (own == contributed.end()) continue;
    members.back().rows = own->second.rows;
    members.back().bytes = own->second.bytes;
    members.back().hours = own->second.hours();
    members.back().kilowatt_hours = own->second.kilowatt_hours();
    members.back().co2_kg = own->second.co2_kg();
  }
  page_.show(members);
  const RunStatus status = status_of(recipe_, host, 0, obstacle, machine_of_);
  page_.show_place(static_cast<int64_t>(status.step), status.round, status.waits_for);
  if (state.finished) page_.finish();
}

}  // namespace thinwire::hosts
