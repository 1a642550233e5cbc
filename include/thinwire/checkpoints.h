// The checkpoints of a run: which there are, and what each holds. Target thinwire::core.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

// The checkpoints in the folder of a run, by their steps, the oldest first; none if it has none
// yet.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);

// A checkpoint that is complete. Its weights are weights.safetensors in its folder, and its recipe
// recipe.toml; TrainedModel (thinwire/trained_model.h) reads it.
struct CheckpointFacts {
  uint64_t step = 0;    // optimizer steps that were completed
  uint64_t tokens = 0;  // trained on so far, over all workers
  std::string method;   // sync.method; empty for a model that was imported
  int workers = 0;      // whose local state it holds; 0 for a model that was imported
  std::string digest;   // of everything in it, 16 hexadecimal digits: the same means equal
};

// Reads every file once. Throws Error that names the file which is missing, truncated or altered.
CheckpointFacts read_checkpoint(const std::filesystem::path& folder);

}  // namespace thinwire
