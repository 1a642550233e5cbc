#include "thinwire/membership/room.h"

#include <algorithm>

namespace thinwire::membership {
namespace {

// As encoded (docs/formats.md, "Ledger records"); a change has its kind in front.
constexpr uint64_t kContribution = 4 + 8 + 32 + 8 + 8;
constexpr uint64_t kShare = 4 + 8 + 8 + 8;
constexpr uint64_t kPhaseChange = 1 + 4 + 1 + 1 + 8;
constexpr uint64_t kSpeed = 1 + 4 + 4;
constexpr uint64_t kAdmission = 1 + 4 + 32 + kPhaseChange;
constexpr uint64_t kStepRates = 4 + 4;
constexpr uint64_t kOperation = 4 + 8 + 32;  // in an opening, and its commit without contributions
constexpr uint64_t kRest = 8 << 10;          // returns, snapshots, digests, offences, and the frame

}  // namespace

// All fragments are exchanged after the last round; in between there is no larger one than the
// first.
uint64_t room_for_members(const RunPlan& plan, const Options& options) {
  const Opening first = plan.round(0), last = plan.round(plan.rounds() - 1);
  const uint64_t operations = std::max(first.operations.size(), last.operations.size());
  const uint64_t steps = std::max(first.steps.size(), last.steps.size());
  const uint64_t openings = 1 + plan.overlap();
  const uint64_t contributions = operations * (options.late_counts ? 2 : 1);
  uint64_t each = kContribution * contributions + kShare * openings + kPhaseChange;
  if (options.shares == config::RowShares::kSpeed) each += kSpeed;
  const uint64_t rest = kRest + kAdmittedAtOnce * kAdmission +
                        openings * (steps * kStepRates + operations * kOperation);
  if (options.max_record_bytes <= rest + each) return 1;
  return (options.max_record_bytes - rest) / each;
}

}  // namespace thinwire::membership
