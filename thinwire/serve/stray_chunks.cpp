#include "thinwire/serve/stray_chunks.h"

#include <algorithm>
#include <utility>

#include "thinwire/serve/payload_filter.h"

namespace thinwire::serve {
namespace {

constexpr uint64_t kSnapshots = 4;

}  // namespace

uint64_t StrayAllowance::in(uint64_t rounds) const {
  return (rounds + open_rounds) * kMaxOffers * round_chunks + kSnapshots * snapshot_chunks;
}

void StrayChunks::begin(uint64_t next_round) {
  first_ = !now_;
  // The ledger may have lost rounds.
  before_ = std::min(now_.value_or(next_round), next_round);
  now_ = next_round;
}

StrayChunks::Finding StrayChunks::listed(int member, const std::vector<Sha256>& strays,
                                         const StrayAllowance& allowance) {
  const uint64_t now = now_.value_or(0);
  Member& known = members_[member];
  Finding finding;
  finding.allowed = known.allowed;
  known.allowed = allowance.in(now - before_);
  std::map<Sha256, Known> listed;
  uint64_t fresh = 0;
  for (const Sha256& name : strays) {
    const auto before = known.strays.find(name);
    if (before == known.strays.end()) {
      listed.emplace(name, Known{now, !first_});
      ++fresh;
      continue;
    }
    if (before->second.fresh) ++finding.appeared;
    const uint64_t since = std::min(before->second.since, now);
    listed.emplace(name, Known{since, false});
    if (now - since >= kSpentRounds) finding.spent.push_back(name);
  }
  known.strays = std::move(listed);
  finding.suspicious = !first_ && fresh > known.allowed;
  return finding;
}

bool ListingSchedule::is_due(uint64_t unused, uint64_t more, uint64_t next_round, double now,
                             double period_s) const {
  if (!at_ || again_) return true;
  if (unused > unused_ + more) return true;
  return next_round >= round_ + kSpentRounds && now >= *at_ + period_s;
}

void ListingSchedule::listed(uint64_t unused, uint64_t next_round, double now, bool again) {
  unused_ = unused;
  round_ = next_round;
  at_ = now;
  again_ = again;
}

}  // namespace thinwire::serve
