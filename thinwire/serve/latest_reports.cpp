#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "thinwire/serve/coordinator_host_impl.h"

namespace thinwire::serve {
namespace {

// Anyone with a token can make keys; beyond this number they are not remembered.
constexpr size_t kMaxKeys = 1 << 16;

// Rounds overlap, so contributions may arrive out of order.
void advance(std::optional<uint64_t>& newest, uint64_t round) {
  newest = std::max(newest.value_or(round), round);
}

}  // namespace

void LatestReports::begin(double now) {
  if (!began_) began_ = now;
}

void LatestReports::closed(uint64_t sequence) {
  closings_.erase(std::ranges::lower_bound(closings_, sequence), closings_.end());
  closings_.push_back(sequence);
}

void LatestReports::receive(const membership::JoinRequest& join) {
  if (down_bytes_s_.size() == kMaxKeys && !down_bytes_s_.contains(join.key)) return;
  down_bytes_s_[join.key] = join.down_bytes_s;
}

void LatestReports::receive(int member, const PublicKey& key, const membership::Message& message,
                            double now) {
  received_[member].at = now;
  LatestReport& latest = received_[member].latest;
  latest.disconnected = false;
  latest.left = std::holds_alternative<membership::LeaveNotice>(message);
  if (const auto link = down_bytes_s_.find(key); link != down_bytes_s_.end()) {
    latest.down_bytes_s = link->second;
  }
  if (const auto* report = std::get_if<membership::Report>(&message)) {
    latest.position = report->position ? report->position->sequence : 0;
    if (report->digest) latest.digest = report->digest;
  } else if (const auto* offer = std::get_if<membership::Offer>(&message)) {
    if (offer->spent.seconds > 0) latest.step_seconds = offer->spent.seconds;
    advance(latest.offered, offer->round);
  }
}

void LatestReports::disconnected(int member) {
  const auto known = received_.find(member);
  if (known != received_.end()) known->second.latest.disconnected = true;
}

void LatestReports::arrived(const membership::Offer& offer) {
  advance(received_[offer.member].latest.arrived, offer.round);
}

void LatestReports::finished(const PublicKey& key) {
  if (finished_.size() < kMaxKeys) finished_.insert(key);
}

void LatestReports::refused(const membership::Offer& offer, const std::string& why) {
  received_[offer.member].latest.refused = fmt::format("round {}: {}", offer.round, why);
}

void LatestReports::audited(int member, size_t audits, double effect) {
  LatestReport& latest = received_[member].latest;
  latest.audits = audits;
  latest.effect = effect;
}

std::map<int, LatestReport> LatestReports::all(double now) const {
  std::map<int, LatestReport> all;
  for (const auto& [member, received] : received_) {
    LatestReport& latest = all[member] = received.latest;
    latest.silent_s = now - heard_at(received);
    latest.behind = static_cast<uint64_t>(closings_.end() -
                                          std::ranges::upper_bound(closings_, latest.position));
  }
  return all;
}

std::vector<int> LatestReports::unfinished(const membership::State& state, double now,
                                           const membership::Options& times) const {
  using membership::Phase;
  std::vector<int> unfinished;
  if (!state.finished) return unfinished;
  for (int member = 0; std::cmp_less(member, state.members.size()); ++member) {
    const membership::Member& known = state.members[static_cast<size_t>(member)];
    const Phase phase = known.phase;
    if (phase == Phase::kLeft || phase == Phase::kExcluded || phase == Phase::kWaiting) continue;
    if (finished_.contains(known.key)) continue;
    const auto found = received_.find(member);
    const Received received = found == received_.end() ? Received() : found->second;
    const bool heard = received.at.has_value();
    if (phase == Phase::kLost && !heard) continue;  // before this host started
    const double patience_s = heard ? times.linger_s() : times.silence_s();
    const bool away = received.latest.left || now - heard_at(received) >= patience_s;
    if (!away && received.latest.position < state.last_closing) unfinished.push_back(member);
  }
  return unfinished;
}

std::optional<uint64_t> LatestReports::final_digest(const membership::State& state) const {
  if (!state.finished) return std::nullopt;
  std::map<uint64_t, int> votes;
  for (const auto& [member, received] : received_) {
    const auto& digest = received.latest.digest;
    if (digest && digest->round + 1 == state.next_round) ++votes[digest->digest];
  }
  if (votes.empty()) return std::nullopt;
  return std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
}

}  // namespace thinwire::serve
