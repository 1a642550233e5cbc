#include "thinwire/hosts/final_losses.h"

#include "thinwire/train/task_files.h"

namespace thinwire::hosts {

void FinalLosses::add(const membership::Loss& loss) {
  if (loss.set == membership::Loss::kTraining) return;
  const Lock lock(mutex_);
  if (last_.size() >= kMaxNames && !last_.contains(loss.set)) return;
  Last& last = last_[loss.set];
  if (loss.step < last.step) return;
  if (loss.step > last.step) last = {loss.step, {}};
  last.sums[loss.member] = {loss.sum, loss.tokens};
}

FinalLosses::Total FinalLosses::total(const std::string& name, int64_t steps) const {
  Total total;
  const auto found = last_.find(name);
  if (found == last_.end() || found->second.step != static_cast<uint64_t>(steps)) return total;
  for (const auto& [member, sum] : found->second.sums) {
    total.sum += sum.first;
    total.weight += static_cast<double>(sum.second);
  }
  return total;
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
