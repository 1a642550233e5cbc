// Where a run begins, or resumes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/worker.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {

struct Beginning {
  train::StartingWeights weights;
  std::unique_ptr<checkpoint::CheckpointReader> resume;  // null: a new run
  uint64_t run_id = 0;
  int64_t first_step = 0;
  int64_t ended_at = 0;              // as in checkpoint::ResumeFacts
  std::vector<std::string> notices;  // likewise
};

// checkpoint: to resume from; empty: a new run. vocabulary: null for a program's own model. The
// layout is that of the recipe's trained tensors, and must outlive the result. Throws UsageError or
// Error if the checkpoint does not belong to the recipe's run (checkpoint/resume_rules.h), or its
// factors to another base (checkpoint/adapter_base.h).
Beginning find_beginning(const std::string& checkpoint, const tensor::Layout& layout,
                         const data::Vocabulary* vocabulary, const checkpoint::RunSources& sources,
                         const events::MessageSink& message);

// Small files that the run's checkpoints hold besides tensors, by name.
std::map<std::string, std::string> checkpoint_texts(const config::Recipe& recipe,
                                                    const Beginning& from);

// The workers of one process, one thread each.

// Runs a worker for each of the communicators and waits for all. The first failure ends the run for
// all workers and is rethrown; throws Aborted if a worker in another process ended the run.
train::WorkerEnd run_workers(
    const train::RunContext& context,
    std::span<const std::unique_ptr<transport::Communicator>> communicators);

}  // namespace thinwire::launch
