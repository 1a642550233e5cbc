// Receives what a member's worker records: writes its log and checkpoints, reports digests to the
// coordinator, and makes snapshots for members that join.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/config/recipe.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/place.h"
#include "thinwire/train/collector.h"
#include "thinwire/train/round_source.h"
#include "thinwire/train/run_sink.h"

namespace thinwire::member {

// Used by the worker's thread. The record covers this member alone: its losses are over its own
// rows.
class MemberSink final : public train::RunSink {
 public:
  // The worker's id under which a member's own parts are recorded.
  static constexpr int kOnlyWorker = 0;

  // Everything referred to must outlive it. `message`: what the user is told.
  MemberSink(const config::Recipe& recipe, uint64_t run, fs::path folder, Follower& follower,
             train::Collector& collector, checkpoint::CheckpointCollector& checkpoints,
             std::function<void(const std::string& text)> message)
      : recipe_(recipe),
        run_(run),
        folder_(std::move(folder)),
        follower_(follower),
        collector_(collector),
        checkpoints_(checkpoints),
        message_(std::move(message)) {}

  void add_step(int64_t step, int worker, const train::StepPart& part) override;
  void add_evaluation(int64_t step, const std::string& name, int worker,
                      const train::EvalPart& part) override;
  void add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) override;
  // Keeps the checkpoint of the best weights, if this member has one, and otherwise removes the
  // link to an earlier one.
  void decided(int64_t step, const train::Decided& decided) override;
  void show_evaluation(int64_t step, const std::string& name, double fraction) override {
    collector_.show_evaluation(step, name, fraction);
  }
  // Throws train::Aborted if the replica has to start over.
  bool stops_before(int64_t point) override;
  bool checkpoint_due(int64_t completed) override { return follower_.wants_snapshot(completed); }

  // Training steps that the replica has completed; `first`, where it started, if it has completed
  // none since.
  int64_t completed(int64_t first) const { return completed_.value_or(first); }
  // The digest of the weights when members last synchronised; nothing before.
  const std::optional<uint64_t>& last_digest() const { return digest_; }

 private:
  // Whether a checkpoint is written after these steps whatever happens.
  bool is_due(int64_t step) const;

  const config::Recipe& recipe_;
  const uint64_t run_;
  const fs::path folder_;  // of the member's run
  Follower& follower_;
  train::Collector& collector_;
  checkpoint::CheckpointCollector& checkpoints_;
  const std::function<void(const std::string& text)> message_;
  std::optional<int64_t> completed_;
  std::optional<uint64_t> digest_;
  // The steps and the digest of the last checkpoint after which an evaluation may end the run.
  std::optional<std::pair<int64_t, uint64_t>> written_;
  int64_t best_ = -1;            // steps of the best checkpoint that is kept; -1: none
  std::optional<int64_t> last_;  // steps after which an evaluation has ended the run
};

// A member's own newest checkpoint, from which it may continue after its process ended.
struct OwnCheckpoint {
  std::unique_ptr<checkpoint::CheckpointReader> reader;
  Place place;
  std::map<uint64_t, Bytes> records;  // of the ledger, the last ones by number
};

// The newest checkpoint in a folder, if it has at most `steps` steps and holds its place in the
// ledger. `notify` gets a message about one that cannot be used. Throws UsageError if it is of
// another run.
std::optional<OwnCheckpoint> open_own_checkpoint(
    const fs::path& checkpoints, const membership::Founding& founding, int64_t steps,
    const std::function<void(const std::string& text)>& notify);

// The evaluations after `step` steps that a log already has.
std::set<std::string> evaluated_at(const fs::path& log, int64_t step);

}  // namespace thinwire::member
