#include "thinwire/checkpoint/checkpoint_collector.h"

#include <utility>

namespace thinwire::checkpoint {

CheckpointCollector::CheckpointCollector(fs::path folder, int64_t keep, CheckpointStamp stamp)
    : folder_(std::move(folder)), keep_(keep), stamp_(std::move(stamp)) {}

std::shared_ptr<CheckpointWriter> CheckpointCollector::writer_at(int64_t completed) {
  const Lock lock(mutex_);
  auto& writer = pending_[completed].writer;
  if (!writer)
    writer = std::make_shared<CheckpointWriter>(folder_, static_cast<uint64_t>(completed));
  return writer;
}

bool CheckpointCollector::arrive(int64_t completed, int worker, const WorkerState& state) {
  const auto writer = writer_at(completed);
  if (state.first) {
    writer->write_weights(*state.params);
    writer->write_consensus(state.consensus);
    writer->add_text(kRecipeFile, stamp_.recipe);
    if (!stamp_.vocabulary.empty()) writer->add_file(stamp_.vocabulary);
    for (const auto& [name, text] : stamp_.texts) writer->add_text(name, text);
  }
  writer->write_worker(worker, state.local, state.in_flight);

  const Lock lock(mutex_);
  if (++pending_[completed].arrived < state.members) return false;
  CheckpointMeta meta;
  meta.step = static_cast<uint64_t>(completed);
  meta.tokens = static_cast<uint64_t>(completed * stamp_.tokens_per_step);
  meta.run = stamp_.run_id;
  meta.data = stamp_.data;
  meta.ended_at = static_cast<uint64_t>(stamp_.ended_at);
  meta.method = stamp_.method;
  meta.workers = static_cast<int>(state.members);
  writer->commit(meta, keep_, best_);
  pending_.erase(completed);
  return true;
}

void CheckpointCollector::keep_best(int64_t completed) {
  const Lock lock(mutex_);
  best_ = completed;
  link_best(folder_, completed);
}

void link_best(const fs::path& checkpoints, int64_t completed) {
  const fs::path link = checkpoints.parent_path() / kBestLink;
  const fs::path partial = link.string() + ".partial";
  fs::remove(partial);
  fs::create_directory_symlink(
      checkpoints.filename() / checkpoint_name(static_cast<uint64_t>(completed)), partial);
  fs::rename(partial, link);
  sync_directory(link.parent_path());
}

}  // namespace thinwire::checkpoint
