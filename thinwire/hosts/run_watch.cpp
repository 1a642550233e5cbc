#include "thinwire/hosts/run_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/names.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/run_status.h"

namespace thinwire::hosts {
namespace {

using membership::Phase;
using page::Doing;

constexpr size_t kNamed = 4;  // members that are waited for

bool takes_part(const membership::Opening& opening, int member) {
  return std::ranges::find(opening.roster, member, &membership::Share::member) !=
         opening.roster.end();
}

bool has_arrived(const std::map<int, serve::MemberNews>& news, int member, uint64_t round) {
  const auto one = news.find(member);
  return one != news.end() && one->second.arrived && *one->second.arrived >= round;
}

std::string waits_for(const membership::Opening& opening,
                      const std::map<int, serve::MemberNews>& news) {
  std::vector<std::string> missing;
  for (const membership::Share& share : opening.roster) {
    if (has_arrived(news, share.member, opening.round)) continue;
    missing.push_back(std::to_string(share.member));
  }
  if (missing.empty()) return fmt::format("waits for round {} to be closed", opening.round);
  const size_t all = missing.size();
  const std::string more = all > kNamed ? fmt::format(" and {} more", all - kNamed) : "";
  missing.resize(std::min(all, kNamed));
  return fmt::format("waits for member{} {}{} in round {}", all > 1 ? "s" : "",
                     fmt::join(missing, ", "), more, opening.round);
}

std::string silence(const serve::MemberNews* news, double now) {
  if (news == nullptr) return "not heard since the coordinator started";
  return fmt::format("silent for {}", format_seconds(std::max(now - news->heard_at, 0.0)));
}

// Of a member that has rows in rounds.
void describe_active(page::MemberNow& member, const membership::State& state,
                     const std::map<int, serve::MemberNews>& all, const serve::MemberNews& news) {
  member.doing = Doing::kWaiting;
  const membership::Opening* oldest = nullptr;
  for (const membership::Opening& opening : state.open) {
    if (!takes_part(opening, member.id)) continue;
    if (oldest == nullptr) oldest = &opening;
    if (news.offered && *news.offered >= opening.round) continue;
    member.doing = Doing::kComputing;
    member.round = opening.round;
    return;
  }
  if (oldest == nullptr) {
    member.why = "waits for its first round";
    return;
  }
  member.round = oldest->round;
  if (!has_arrived(all, member.id, *news.offered)) {
    member.doing = Doing::kSending;
    return;
  }
  member.why = waits_for(*oldest, all);
}

Doing doing_of(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
    case Phase::kActive:
      return Doing::kWaiting;
    case Phase::kCatchingUp:
    case Phase::kLate:
      return Doing::kCatchingUp;
    case Phase::kLeft:
      return Doing::kLeft;
    case Phase::kLost:
    case Phase::kExcluded:
      break;
  }
  return Doing::kLost;
}

std::string why_in(Phase phase, const serve::MemberNews* news, uint64_t offences, double now) {
  switch (phase) {
    case Phase::kWaiting:
      return "admitted; there is nothing to begin with yet, or its link cannot keep up";
    case Phase::kCatchingUp:
      return "fetches a snapshot or replays the rounds that it missed";
    case Phase::kLate:
      return "missed its last round; it has no rows until it has caught up";
    case Phase::kLeft:
      return "said goodbye; it may return";
    case Phase::kLost:
      return silence(news, now);
    case Phase::kExcluded:
      return fmt::format("excluded after {}", counted(offences, "offence"));
    case Phase::kActive:
      break;
  }
  return "";
}

}  // namespace

page::MemberNow member_now(int id, const membership::State& state,
                           const std::map<int, serve::MemberNews>& news, double now) {
  const membership::Member& member = state.members[static_cast<size_t>(id)];
  const auto found = news.find(id);
  const serve::MemberNews* own = found == news.end() ? nullptr : &found->second;
  page::MemberNow shown;
  shown.id = id;
  shown.name = key_id(member.key);
  shown.offences = member.offences;
  shown.doing = doing_of(member.phase);
  shown.why = why_in(member.phase, own, member.offences, now);
  if (own != nullptr) {
    shown.compute_s = own->step_seconds;
    shown.down_bytes_s = own->down_bytes_s;
  }
  if (member.phase != Phase::kActive) return shown;
  if (own == nullptr) {
    shown.why = silence(own, now);
  } else {
    describe_active(shown, state, news, *own);
  }
  return shown;
}

void RunWatch::record(const membership::Record& record, bool earlier, double now) {
  if (!earlier) {
    for (const membership::Change& change : record.changes) {
      if (const auto* phase = std::get_if<membership::PhaseChange>(&change)) note(*phase);
      if (const auto* offence = std::get_if<membership::Offence>(&change)) {
        page_.add_fault(offence->member, fmt::format("member {} offended", offence->member));
      }
    }
  }
  if (record.closing) close(*record.closing, earlier, now);
  for (const membership::Opening& opening : record.openings) {
    open_[opening.round] = {opening, now, earlier};
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
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) round.bytes[one.member] += one.bytes;
  }
  round.missing = closing.missing;
  open_.erase(found);
  page_.close(round);
  if (earlier) return;
  for (const int member : closing.missing) {
    page_.add_fault(member,
                    fmt::format("round {} was closed without member {}", round.round, member));
  }
}

void RunWatch::note(const membership::PhaseChange& change) {
  const std::string text = fmt::format("member {} is {}", change.member, name_of(change.phase));
  const bool is_fault = change.phase == Phase::kLate || change.phase == Phase::kLost ||
                        change.phase == Phase::kExcluded;
  if (is_fault) return page_.add_fault(change.member, text);
  page_.hear(events::MessageEvent{0, text});
}

void RunWatch::look(const serve::CoordinatorHost& host, double now) {
  const membership::State state = host.state();
  const auto news = host.news();
  std::vector<page::MemberNow> members;
  for (int id = 0; std::cmp_less(id, state.members.size()); ++id) {
    members.push_back(member_now(id, state, news, now));
  }
  page_.show(members);
  const RunStatus status = status_of(recipe_, host, 0, now);
  page_.show_place(static_cast<int64_t>(status.step), status.round, status.waits_for);
  if (state.finished) page_.finish();
}

}  // namespace thinwire::hosts
