#include "thinwire/method/gradient_sums.h"
#include "thinwire/train/round_source.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

SimulatedCompute::SimulatedCompute(const config::Recipe& recipe, const tensor::Layout& layout,
                                   transport::SimulatedNetwork* simulation, int member)
    : recipe_(recipe),
      layout_(layout),
      simulation_(simulation),
      member_(member),
      groups_(gradient_groups(layout.specs())) {}

void SimulatedCompute::begin(int64_t rows) {
  if (simulation_ == nullptr) return;
  const config::TrainSection& train = recipe_.train;
  const RowRange even =
      share(static_cast<uint64_t>(train.batch), member_, static_cast<int>(train.workers));
  steps_ = static_cast<double>(rows) / static_cast<double>(even.count);
  done_ = 0;
  if (rows > 0 && rows != rows_) {
    shares_ = method::completion_shares(recipe_, layout_.specs(), rows);
    rows_ = rows;
  }
}

void SimulatedCompute::advance_to(double share) {
  simulation_->compute(member_, (share - done_) * steps_);
  done_ = share;
}

void SimulatedCompute::completed(int group) {
  if (simulation_ == nullptr) return;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].number == group) advance_to(shares_[i]);
  }
}

double SimulatedCompute::end() {
  if (simulation_ == nullptr) return 0;
  advance_to(1);
  return steps_ * simulation_->step_seconds(member_);
}

}  // namespace thinwire::train
