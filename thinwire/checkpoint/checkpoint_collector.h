// Lets the members of a run write one checkpoint without waiting for each other: each writes its
// own part when it gets there, the first of the round's roster also what all share, and the last
// one publishes it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::checkpoint {

// The name of the link in a run folder to the checkpoint with the lowest loss.
inline constexpr const char* kBestLink = "best";

// What every checkpoint of a run carries besides tensors.
struct CheckpointStamp {
  uint64_t run_id = 0;
  std::map<std::string, uint64_t> data;  // digest of each token set
  int64_t ended_at = 0;                  // as in CheckpointMeta
  std::string method;
  std::string recipe;   // resolved TOML
  fs::path vocabulary;  // file to copy; empty: there is none
  int64_t tokens_per_step = 0;
  std::map<std::string, std::string> texts = {};  // further small files, by name
};

// What one worker hands in. `params` are the shared weights; they and the consensus state are
// taken from the first of the roster and may be absent from others.
struct WorkerState {
  const tensor::Arena* params = nullptr;
  std::vector<NamedValues> consensus;
  std::vector<NamedValues> local;
  std::vector<NamedBytes> in_flight;
  int64_t members = 0;  // in the round's roster: the number of parts of the checkpoint
  bool first = false;   // of the roster
};

// Points the link `best` beside a folder of checkpoints to its checkpoint after `completed` steps.
void link_best(const fs::path& checkpoints, int64_t completed);

// Thread-safe.
class CheckpointCollector {
 public:
  CheckpointCollector(fs::path folder, int64_t keep, CheckpointStamp stamp);

  // Hands in this worker's part of the checkpoint after `completed` steps; returns true for the
  // last worker, which publishes it. Throws Error when it cannot be written; then none of it
  // remains and older checkpoints are untouched.
  bool arrive(int64_t completed, int worker, const WorkerState& state);
  // Keeps the existing checkpoint after `completed` steps, and points the link `best` beside the
  // folder of checkpoints to it.
  void keep_best(int64_t completed);

 private:
  struct Pending {
    std::shared_ptr<CheckpointWriter> writer;
    int64_t arrived = 0;
  };
  std::shared_ptr<CheckpointWriter> writer_at(int64_t completed);

  const fs::path folder_;
  const int64_t keep_;
  const CheckpointStamp stamp_;
  Mutex mutex_;
  int64_t best_ GUARDED_BY(mutex_) = -1;  // steps of the one that is kept; -1: none
  std::map<int64_t, Pending> pending_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::checkpoint
