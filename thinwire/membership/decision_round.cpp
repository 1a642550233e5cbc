#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/membership/decision.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::membership {
namespace {

// Share of a round's rows, or of its members, that is enough to close it without absent members.
constexpr double kEnoughWithoutAbsent = 0.5;

// Whether two rosters have the same members.
bool same_members(const std::vector<Share>& roster, const std::vector<int>& members) {
  return std::ranges::equal(roster, members, {}, &Share::member);
}

}  // namespace

// A contribution of this member that is stored safely; null: there is none.
const Arrival* Decision::contribution(int member, uint64_t round, uint32_t epoch,
                                      uint32_t fragment) const {
  if (phase(member) == Phase::kExcluded) return nullptr;
  const auto found = observed_.offers.find({member, round, fragment});
  if (found == observed_.offers.end() || !found->second.stored) return nullptr;
  return found->second.offer.epoch == epoch ? &found->second : nullptr;
}

// Whether everything that the member contributes to the oldest open round has arrived.
bool Decision::has_arrived(int member) const {
  const Opening& opening = state_.open.front();
  return std::ranges::all_of(opening.operations, [&](const PlannedOperation& operation) {
    return contribution(member, opening.round, opening.epoch, operation.fragment) != nullptr;
  });
}

// Whether something that it offered for the oldest open round was refused: it will offer nothing
// better.
bool Decision::was_refused(int member) const {
  const Opening& opening = state_.open.front();
  return std::ranges::any_of(opening.operations, [&](const PlannedOperation& operation) {
    const auto found = observed_.offers.find({member, opening.round, operation.fragment});
    return found != observed_.offers.end() && found->second.refused &&
           found->second.offer.epoch == opening.epoch;
  });
}

// Whether it is active, or was lost and has come back with its replica.
bool Decision::has_replica(int member) const {
  const bool kept = !state_.members[static_cast<size_t>(member)].snapshot;
  return phase(member) == Phase::kActive || (phase(member) == Phase::kCatchingUp && kept);
}

// Whether its replica has reached the oldest open round.
bool Decision::is_with_round(int member) const {
  if (!has_replica(member)) return false;
  const std::optional<Position>& position = observed_.members.at(member).position;
  const bool is_there = position && position->sequence >= state_.last_closing;
  return phase(member) == Phase::kActive || is_there;
}

// Whether the oldest open round waits for it.
bool Decision::is_awaited(int member) const {
  return !was_refused(member) && is_with_round(member);
}

// Whether it seems to be gone, although it is not yet lost.
bool Decision::is_absent(int member) const {
  return observed_.members.at(member).departed || is_long_silent(member);
}

bool Decision::is_long_silent(int member) const {
  return silence(observed_.members.at(member).at) > options_.absent_s();
}

Arrivals Decision::arrivals() const {
  Arrivals arrivals;
  if (state_.open.empty()) return arrivals;
  for (const Share& share : state_.open.front().roster) {
    arrivals.missing.insert(arrivals.missing.end(), share.member);
    arrivals.batch += share.rows.count;
    count(share.member, arrivals);
  }
  return arrivals;
}

void Decision::count(int member, Arrivals& arrivals) const {
  const auto place = arrivals.missing.find(member);
  if (place == arrivals.missing.end() || !has_arrived(member)) return;
  arrivals.missing.erase(place);
  const Opening& opening = state_.open.front();
  double last = 0;
  for (const PlannedOperation& operation : opening.operations) {
    const Arrival* one = contribution(member, opening.round, opening.epoch, operation.fragment);
    last = std::max(last, one->at - observed_.front_since);
  }
  arrivals.rows += share_of(opening, member)->rows.count;
  arrivals.seconds.push_back(last);
  arrivals.deadlines.reset();
}

bool Decision::can_close(Arrivals& arrivals) const {
  if (arrivals.seconds.empty()) return false;
  bool all = true, all_absent = true, all_silent = true;
  for (const int member : arrivals.missing) {
    if (!is_awaited(member)) continue;
    all = false;
    all_silent = all_silent && is_long_silent(member);
    all_absent = all_absent && is_absent(member);
    if (!all_absent) break;
  }
  if (all) return true;
  if (is_cut_off()) return false;
  if (!arrivals.deadlines) {
    arrivals.deadlines = deadlines_of(options_, arrivals.seconds, observed_.round_s);
  }
  const auto& [slow, absent, last] = *arrivals.deadlines;
  const double open_s = now_ - observed_.front_since;
  if (open_s >= last) return true;
  const double part = static_cast<double>(arrivals.rows) / static_cast<double>(arrivals.batch);
  if (part >= options_.quorum && open_s >= slow) return true;
  return all_absent && open_s >= absent && (all_silent || has_half(arrivals));
}

// Half of the rows or of the members, whichever is reached first: each of two members is half,
// whoever has more rows.
bool Decision::has_half(const Arrivals& arrivals) const {
  const auto arrived = static_cast<double>(arrivals.seconds.size());
  const double members = arrived + static_cast<double>(arrivals.missing.size());
  const double rows = static_cast<double>(arrivals.rows) / static_cast<double>(arrivals.batch);
  return std::max(rows, arrived / members) >= std::min(options_.quorum, kEnoughWithoutAbsent);
}

void Decision::close() {
  const Opening& opening = state_.open.front();
  Closing closing{opening.round, {}, {}};
  for (const PlannedOperation& operation : opening.operations) {
    closing.commits.push_back(commit(opening, operation));
  }
  for (const Share& share : opening.roster) {
    if (has_arrived(share.member)) continue;
    closing.missing.push_back(share.member);
    if (phase(share.member) == Phase::kActive) set_phase(share.member, Phase::kLate);
  }
  if (options_.shares == config::RowShares::kSpeed) record_speeds(opening);
  record_.closing = std::move(closing);
}

Commit Decision::commit(const Opening& opening, const PlannedOperation& operation) const {
  Commit commit;
  commit.operation = {state_.founding->run, opening.epoch, opening.round, operation.fragment};
  const auto add = [&commit](const Arrival* arrival, uint64_t weight) {
    if (arrival == nullptr) return;
    const Offer& offer = arrival->offer;
    commit.contributions.push_back({offer.member, offer.round, offer.payload, offer.bytes, weight});
  };
  for (const Share& share : opening.roster) {
    add(contribution(share.member, opening.round, opening.epoch, operation.fragment),
        weight_of(opening, share.member));
  }
  for (const auto& [late, terms] : state_.overdue) {
    if (!options_.late_counts || late.fragment != operation.fragment) continue;
    add(contribution(late.member, late.round, terms.operation.epoch, late.fragment), terms.weight);
  }
  std::ranges::sort(commit.contributions, {},
                    [](const Contribution& one) { return std::pair(one.member, one.round); });
  commit.scale = commit_scale(commit.contributions);
  return commit;
}

void Decision::record_speeds(const Opening& opening) {
  if (opening.steps.empty()) return;
  for (const Share& share : opening.roster) {
    double seconds = 0;
    for (const PlannedOperation& operation : opening.operations) {
      const Arrival* one =
          contribution(share.member, opening.round, opening.epoch, operation.fragment);
      if (one != nullptr) seconds = std::max(seconds, one->offer.spent.seconds);
    }
    const auto rows = static_cast<double>(share.rows.count * opening.steps.size());
    auto speed = static_cast<float>(rows / seconds);
    const float before = state_.members[static_cast<size_t>(share.member)].rows_per_second;
    // A single step takes now more, now less.
    if (opening.steps.size() == 1 && before > 0) speed = before + (speed - before) / 4;
    if (seconds > 0 && std::isfinite(speed) && speed > 0) {
      record_.changes.emplace_back(Speed{share.member, speed});
      speeds_[share.member] = speed;
    }
  }
}

// Whether nothing that counts has arrived from its roster, and no member that is present can still
// send it. One that starts over can, once it has reached this round again; one that has just lost
// its connection may be back in a moment.
bool Decision::is_deserted(const Opening& opening) const {
  return std::ranges::none_of(opening.roster, [this](const Share& share) {
    const bool may_come = !is_gone(phase(share.member)) && !was_refused(share.member) &&
                          !is_long_silent(share.member);
    return may_come || has_arrived(share.member);
  });
}

bool Decision::can_reopen() const {
  return !state_.open.empty() && is_deserted(state_.open.front()) && !successors().empty();
}

bool Decision::lacks_members() const {
  return state_.open.size() < 1 + plan_.overlap() && state_.next_round < plan_.rounds() &&
         may_open(state_.next_round);
}

void Decision::open_rounds() {
  if (!record_.closing && can_reopen()) {
    const std::vector<int> members = successors();
    const uint32_t epoch = state_.open.back().epoch + 1;
    leave_out_silent();
    for (const Opening& opening : state_.open) open(opening.round, epoch, members);
    return;
  }
  const bool begins = state_.next_round == 0;
  const std::vector<int> members = next_roster();
  if (members.empty() || (begins && members.size() < plan_.workers())) return;
  const uint32_t epoch = next_epoch(members);
  uint64_t rounds = state_.open.size() - (record_.closing ? 1 : 0);
  for (uint64_t number = state_.next_round; rounds < 1 + plan_.overlap(); ++rounds, ++number) {
    if (number >= plan_.rounds() || !may_open(number)) return;
    open(number, epoch, members);
  }
}

// Who trains from the next round on: those that have caught up, at most as many as there are rows,
// or as the records have room for.
std::vector<int> Decision::next_roster() const {
  const uint64_t most = std::min(plan_.batch(), room_);
  std::vector<int> members;
  for (int member = 0; std::cmp_less(member, state_.members.size()); ++member) {
    if (caught_up(member) && members.size() < most) members.push_back(member);
  }
  return members;
}

// Who trains in a round whose roster is gone.
std::vector<int> Decision::successors() const {
  std::vector<int> members = next_roster();
  std::erase_if(members, [this](int member) { return is_long_silent(member); });
  return members;
}

// The rounds after one that opens anew would wait for them as it did.
void Decision::leave_out_silent() {
  for (const auto& [member, seen] : observed_.members) {
    if (phase(member) == Phase::kActive && is_long_silent(member)) set_phase(member, Phase::kLate);
  }
}

// It changes with the roster.
uint32_t Decision::next_epoch(const std::vector<int>& members) const {
  if (state_.next_round == 0) return 0;
  const Opening* last = last_opening();
  if (last == nullptr) return state_.epoch + 1;
  return last->epoch + (same_members(last->roster, members) ? 0 : 1);
}

void Decision::open(uint64_t number, uint32_t epoch, const std::vector<int>& members) {
  Opening opening = plan_.round(number);
  opening.epoch = epoch;
  const std::vector<uint8_t> present(members.size(), 1);
  const std::vector<uint64_t> rows =
      schedule::share_rows(plan_.batch(), present, speeds_of(members));
  uint64_t row = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const uint64_t since = active_since(members[i], opening);
    opening.roster.push_back({members[i], {row, rows[i]}, since});
    row += rows[i];
  }
  for (const int member : members) {
    if (phase(member) != Phase::kActive) set_phase(member, Phase::kActive);
  }
  record_.openings.push_back(std::move(opening));
}

// Rows of members' own texts are claims that nobody can check: none counts as more than so many
// times the median, of two in the middle the lower one. Unknown ones, 0, have no part in it.
void Decision::limit_claims(std::vector<float>& rows) {
  constexpr float kMostOfMedian = 4;
  std::vector<float> known = rows;
  std::erase(known, 0.0f);
  if (known.empty()) return;
  const auto middle = known.begin() + (std::ssize(known) - 1) / 2;
  std::ranges::nth_element(known, middle);
  for (float& one : rows) one = std::min(one, kMostOfMedian * *middle);
}

// 0 where they are not known or not used.
std::vector<float> Decision::speeds_of(const std::vector<int>& members) const {
  std::vector<float> speeds(members.size());
  if (options_.shares == config::RowShares::kEqual) return speeds;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto measured = speeds_.find(members[i]);
    speeds[i] = measured == speeds_.end()
                    ? state_.members[static_cast<size_t>(members[i])].rows_per_second
                    : measured->second;
  }
  if (options_.shares == config::RowShares::kOwn) limit_claims(speeds);
  return speeds;
}

// As in the roster of the round before, for a member that was active in it, or that was lost and
// came back: it has contributed to the oldest open round with the replica that it had.
uint64_t Decision::active_since(int member, const Opening& opening) const {
  const Opening* before = last_opening();
  if (!record_.openings.empty()) before = &record_.openings.back();
  const bool returned = !state_.open.empty() && has_replica(member) && has_arrived(member);
  const bool continues = phase(member) == Phase::kActive || returned;
  if (before == nullptr || before->round + 1 != opening.round || !continues) {
    return opening.first_step;
  }
  const Share* const stays = share_of(*before, member);
  return stays == nullptr ? opening.first_step : stays->since;
}

}  // namespace thinwire::membership
