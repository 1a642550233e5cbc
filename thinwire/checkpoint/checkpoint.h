// Checkpoints: everything a run needs to resume bit for bit, as one folder that is complete or
// absent.
//
//   checkpoints/step-00001000/
//     checkpoint.json            CheckpointMeta; size and hash of every other file; a digest of all
//     weights.safetensors        parameters in the type they are kept in, Hugging Face names
//     consensus.safetensors      state that all replicas agree on, 1-D, in the type it is kept in
//     worker-0000.safetensors    local state of each worker, likewise
//     worker-0000.payload        what the worker has sent and nobody has applied yet, if anything
//     recipe.toml                the resolved recipe
//     vocabulary.model | .json   the vocabulary's file
//
// A checkpoint is written as step-00001000.partial, synced, and renamed, so a failure in between
// leaves the previous ones unchanged. docs/formats.md describes the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/named_span.h"
#include "thinwire/checkpoint/staged_folder.h"
#include "thinwire/checkpoint/weights.h"
#include "thinwire/tensor/files/safetensors.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::checkpoint {

// The history of the loss on the validation set that a run watches (eval.watch), on which early
// stopping and the best checkpoint are based.
struct BestLoss {
  int64_t step = -1;  // steps completed at the lowest loss; -1: nothing was evaluated yet
  double loss = std::numeric_limits<double>::infinity();
  int64_t since = 0;  // evaluations since then

  void add(int64_t completed, double value) {
    if (value < loss) {
      *this = {completed, value, 0};
    } else {
      ++since;
    }
  }
  // Never with patience 0.
  bool exhausts(int64_t patience) const { return patience > 0 && since >= patience; }
};

// Raised whenever the same recipe and seed give different bits than before. A run of an earlier
// version can be resumed, with a notice; one of a later version cannot.
//   1  cosines and logarithms from the system's library
//   2  cosines and logarithms of the schedule and of initial weights by base/maths.h; bf16 products
//      with fp32 results keep fp32 sums on processors with bf16 instructions
//   3  DisTrO's means are sums times a reciprocal; where many slots of a tile were sent, their
//      inverse is the fast transform on both sides
//   4  bases are renewed at the end of a step and orthonormalised in blocks
//   5  APOLLO and Fira limit norms without bias correction; Fira scales only what is in the
//      subspace
inline constexpr int kNumericsVersion = 5;

inline constexpr const char* kMetaFile = "checkpoint.json";
inline constexpr const char* kRecipeFile = "recipe.toml";

struct CheckpointMeta {
  uint64_t step = 0;    // steps done
  uint64_t tokens = 0;  // tokens trained on, over all workers
  uint64_t run = 0;     // the run's identity (base/round.h)
  // Digest of each token set (data/shard.h); empty for imported weights, and in checkpoints of
  // older programs.
  std::map<std::string, uint64_t> data = {};
  int numerics_version = kNumericsVersion;
  uint64_t ended_at = 0;  // steps after which the run had ended, before it was extended; 0: never
  std::string method;     // sync.method; empty for imported weights
  int workers = 0;        // worker-NNNN files; 0 for imported weights
};

using CheckpointFile = FileStamp;

// Writes one checkpoint. The write functions may be called from several threads at once, once for
// each file. All throw Error naming the file; after that, or without commit(), nothing remains.
class CheckpointWriter {
 public:
  // Writes checkpoints_dir/step-NNNNNNNN. Removes what interrupted writers left in checkpoints_dir,
  // so only one process at a time may write there, but it may write several steps at once.
  CheckpointWriter(const fs::path& checkpoints_dir, uint64_t step);
  // Writes `folder` itself, which must be absent or empty.
  explicit CheckpointWriter(const fs::path& folder);
  void write_weights(const tensor::Arena& params, const TensorProgress& progress = {});
  void write_consensus(std::span<const NamedValues> state);
  // Each of `bytes` becomes a file whose name ends in its name; empty ones are skipped.
  void write_worker(int worker, std::span<const NamedValues> state,
                    std::span<const NamedBytes> bytes = {});
  // A small file, e.g. kRecipeFile.
  void add_text(std::string_view name, std::string_view text);
  // A copy of a file under its own file name, e.g. the vocabulary.
  void add_file(const fs::path& path) { add_file(path, path.filename().string()); }
  void add_file(const fs::path& path, const std::string& name);

  // Makes the checkpoint appear, replacing one of the same step. Then deletes the oldest others
  // until `keep` are left, counting this one, but never that of step `pinned`; keep 0 deletes none.
  // meta.workers files of worker state must have been written. Must not be called while another
  // thread still writes.
  void commit(const CheckpointMeta& meta, int64_t keep, int64_t pinned = -1);

 private:
  void note(const std::string& name, CheckpointFile file);
  void write_state(const std::string& name, std::span<const NamedValues> state);

  StagedFolder staged_;
  Mutex mutex_;
  std::map<std::string, CheckpointFile> files_ GUARDED_BY(mutex_);
};

// A checkpoint opened for reading. The constructor reads every file once and compares sizes, hashes
// and the digest; errors name the file and say whether it is missing, truncated, altered or not a
// checkpoint. All const members may be called from many threads.
class CheckpointReader {
 public:
  explicit CheckpointReader(const fs::path& folder);

  const fs::path& folder() const { return folder_; }
  const CheckpointMeta& meta() const { return meta_; }
  const std::map<std::string, CheckpointFile>& files() const { return files_; }
  // Digest of everything in the checkpoint: equal digests mean equal checkpoints.
  uint64_t digest() const { return digest_; }
  const std::string& recipe_text() const { return recipe_text_; }
  // weights.safetensors, for the names and shapes in it.
  const tensor::SafetensorsReader& weights() const { return tensors("weights.safetensors"); }

  // Fills every tensor of the arena; throws Error when names or shapes differ. Returns the digest
  // of the values in fp32, as checkpoint::read_weights.
  uint64_t read_weights(tensor::Arena& params) const;
  // Names in the order in which they were written; none if no such file was written.
  std::vector<std::string> consensus_names() const;
  std::vector<std::string> worker_names(int worker) const;
  // Fill the state of this name. Throw Error if there is none, or if its type or size differs.
  void read_consensus(const StateTensor& out) const;
  void read_worker(int worker, const StateTensor& out) const;
  void read_consensus(std::string_view name, std::span<float> out) const {
    read_consensus(StateTensor(std::string(name), out));
  }
  void read_worker(int worker, std::string_view name, std::span<float> out) const {
    read_worker(worker, StateTensor(std::string(name), out));
  }
  // Empty when no such bytes were written.
  Bytes read_worker_bytes(int worker, std::string_view name) const;

 private:
  void verify_file(const std::string& name, const CheckpointFile& expected) const;
  const tensor::SafetensorsReader& tensors(const std::string& name) const;

  fs::path folder_;
  CheckpointMeta meta_;
  std::map<std::string, CheckpointFile> files_;
  uint64_t digest_ = 0;
  std::string recipe_text_;
  std::map<std::string, tensor::SafetensorsReader> tensors_;
};

// "step-00001000"
std::string checkpoint_name(uint64_t step);
// The step in such a folder name; nullopt if there is none.
std::optional<uint64_t> checkpoint_step(const fs::path& folder);

// Whether the folder is a checkpoint (has a checkpoint.json); does not verify it.
bool is_checkpoint(const fs::path& folder);

// Complete checkpoints in ascending order of steps. Partial ones are ignored.
std::vector<fs::path> list_checkpoints(const fs::path& checkpoints_dir);

// The last of them, if there is one.
std::optional<fs::path> newest_checkpoint(const fs::path& checkpoints_dir);

}  // namespace thinwire::checkpoint
