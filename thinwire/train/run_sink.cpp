#include "thinwire/train/run_sink.h"

#include <algorithm>
#include <optional>

#include "thinwire/base/clock.h"

namespace thinwire::train {

FolderSink::FolderSink(Collector& collector, checkpoint::CheckpointCollector& checkpoints,
                       const std::atomic<bool>* stop, double checkpoint_minutes)
    : collector_(collector),
      checkpoints_(checkpoints),
      stop_(stop),
      interval_s_(60 * checkpoint_minutes),
      since_(monotonic_seconds()) {}

void FolderSink::add_step(int64_t step, int worker, const StepPart& part) {
  collector_.add_step(step, worker, part);
}

void FolderSink::add_evaluation(int64_t step, const std::string& name, int worker,
                                const EvalPart& part) {
  const std::optional<double> loss = collector_.add_evaluation(step, name, worker, part);
  if (!loss || part.score || name != watched_) return;
  const Lock lock(best_mutex_);
  best_.add(step, *loss);
  if (best_.step == step) checkpoints_.keep_best(step);
}

void FolderSink::keep_best(const std::string& set, const checkpoint::BestLoss& best) {
  watched_ = set;
  const Lock lock(best_mutex_);
  best_ = best;
  if (best_.step >= 0) checkpoints_.keep_best(best_.step);
}

void FolderSink::add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) {
  collector_.sync();
  if (!checkpoints_.arrive(step, worker, state)) return;
  collector_.checkpoint_written(step);
  since_ = monotonic_seconds();
  written_ = step;
  checkpoint_step_.all_reached(step);
}

void FolderSink::show_evaluation(int64_t step, const std::string& name, double fraction) {
  collector_.show_evaluation(step, name, fraction);
}

bool FolderSink::stops_before(int64_t point) {
  if (stop_ != nullptr && stop_->load()) stop_point_.settle_here();
  return point >= *stop_point_.reach(point);
}

bool FolderSink::checkpoint_wanted() const {
  return interval_s_ > 0 && monotonic_seconds() - since_ >= interval_s_;
}

// Reaches the point first, so that the agreed step is a later one.
bool FolderSink::checkpoint_due(int64_t completed) {
  const int64_t agreed = *checkpoint_step_.reach(completed);
  if (checkpoint_wanted()) checkpoint_step_.settle_here();
  return agreed == completed;
}

std::optional<int64_t> AgreedPoint::reach(int64_t point) {
  const Lock lock(mutex_);
  if (point > limit_) return std::nullopt;
  latest_ = std::max(latest_, point);
  return agreed_;
}

void AgreedPoint::settle_here() {
  const Lock lock(mutex_);
  if (agreed_ == kNone) agreed_ = latest_ + 1;
}

int64_t AgreedPoint::promise(int64_t margin) {
  const Lock lock(mutex_);
  agreed_ = kNone;
  limit_ = latest_ + margin;
  return latest_;
}

void AgreedPoint::settle(int64_t point) {
  const Lock lock(mutex_);
  agreed_ = point;
  limit_ = kNone;
}

void AgreedPoint::all_reached(int64_t point) {
  const Lock lock(mutex_);
  if (agreed_ <= point) agreed_ = kNone;
}

}  // namespace thinwire::train
