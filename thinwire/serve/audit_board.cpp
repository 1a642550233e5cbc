#include "thinwire/serve/audit_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/maths.h"

namespace thinwire::serve {

std::string AuditBoard::take(const membership::Audit& audit) {
  Audited& audited = members_[audit.member];
  audited.effects.push_back({audit.round, audit.effect});
  if (audited.effects.size() > kAuditsKept) audited.effects.pop_front();
  if (audit.error) audited.error = audit.error;
  std::string why = why_wrong(audit.member, audit);
  if (why.empty()) why = why_ineffective(audit.member);
  if (!why.empty()) members_.erase(audit.member);
  return why;
}

AuditBoard::Findings AuditBoard::of(int member) const {
  const auto found = members_.find(member);
  if (found == members_.end()) return {};
  const Spread spread = spread_of(found->second, 0);
  return {spread.count, spread.mean};
}

AuditBoard::Spread AuditBoard::spread_of(const Audited& audited, uint64_t first_round) {
  Spread spread;
  double sum = 0, squares = 0;
  for (const auto& [round, value] : audited.effects) {
    if (round < first_round) continue;
    ++spread.count;
    sum += value;
  }
  if (spread.count == 0) return spread;
  spread.mean = sum / static_cast<double>(spread.count);
  for (const auto& [round, value] : audited.effects) {
    if (round >= first_round) squares += (value - spread.mean) * (value - spread.mean);
  }
  if (spread.count > 1) {
    spread.deviation = std::sqrt(squares / static_cast<double>(spread.count - 1));
  }
  return spread;
}

std::string AuditBoard::why_wrong(int member, const membership::Audit& audit) const {
  if (!audit.error || *audit.error <= kMaxError) return "";
  std::vector<double> others;
  for (const auto& [other, audited] : members_) {
    if (other != member && audited.error) others.push_back(*audited.error);
  }
  if (others.size() < kMinOthers || median_of(std::move(others)) > kMaxError) return "";
  return fmt::format(
      "its contribution to round {} is not the gradient of its rows: recomputed, it differs by "
      "{:.0f} % of its length",
      audit.round, 100 * *audit.error);
}

std::string AuditBoard::why_ineffective(int member) const {
  if (!equal_rows_) return "";
  uint64_t first_round = members_.at(member).effects.front().round;
  for (const auto& [other, audited] : members_) {
    if (audited.effects.size() < kAuditsKept) continue;
    first_round = std::max(first_round, audited.effects.front().round);
  }
  const Spread own = spread_of(members_.at(member), first_round);
  if (own.count < kMinAudits) return "";
  std::vector<double> means, deviations;
  for (const auto& [other, audited] : members_) {
    if (other == member) continue;
    const Spread spread = spread_of(audited, first_round);
    if (spread.count < kMinAudits) continue;
    means.push_back(spread.mean);
    deviations.push_back(spread.deviation);
  }
  if (means.size() < kMinOthers) return "";
  const double typical = median_of(std::move(means));
  const double deviation = std::max(own.deviation, median_of(std::move(deviations)));
  const double error = deviation / std::sqrt(static_cast<double>(own.count));
  if (typical <= 0 || typical / 2 - own.mean <= kSpreads * error) return "";
  return fmt::format(
      "what it sends helps the rows that it is assigned no more than others: in {} audits its "
      "effect was {:.3g} on average, where {:.3g} is usual",
      own.count, own.mean, typical);
}

}  // namespace thinwire::serve
