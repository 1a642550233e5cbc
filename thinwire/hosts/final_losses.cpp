// FinalLosses (run_end.h).
#include <cmath>
#include <utility>

#include "thinwire/hosts/run_end.h"
#include "thinwire/train/task_files.h"

namespace thinwire::hosts {

void FinalLosses::record(const membership::Record& record) {
  if (record.openings.empty()) return;
  const Lock lock(mutex_);
  roster_ = record.openings.back().roster;
}

void FinalLosses::add(const membership::Loss& loss) {
  if (loss.set == membership::Loss::kTraining) return;
  if (!std::isfinite(loss.sum) || loss.sum < 0) return;
  const Lock lock(mutex_);
  std::map<std::string, membership::Loss>& own = last_[loss.member];
  if (own.size() >= kMaxNames && !own.contains(loss.set)) return;
  membership::Loss& last = own[loss.set];
  if (loss.step >= last.step) last = loss;
}

FinalLosses::Total FinalLosses::total(const std::string& name, int64_t steps) const {
  Total total;
  for (const membership::Share& share : roster_) {
    const auto member = last_.find(share.member);
    if (member == last_.end()) return {};
    const auto loss = member->second.find(name);
    if (loss == member->second.end() || std::cmp_not_equal(loss->second.step, steps)) return {};
    total.sum += loss->second.sum;
    total.weight += static_cast<double>(loss->second.tokens);
  }
  return std::isfinite(total.sum) ? total : Total{};
}

void FinalLosses::fill(int64_t steps, events::Summary& summary) const {
  const Lock lock(mutex_);
  for (auto& [set, loss] : summary.val_loss) {
    if (const Total all = total(set, steps); all.weight > 0) loss = all.sum / all.weight;
  }
  for (const std::string& name : scores_) {
    const Total all = total(name, steps);
    if (all.weight > 0) summary.scores[name] = train::score_value(name, all.sum, all.weight);
  }
}

}  // namespace thinwire::hosts
