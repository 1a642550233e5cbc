// The parameters with which a run begins.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::train {

// Where the files of a run's arrays are.
fs::path offload_folder(const config::Recipe& recipe);

// Where a worker's weights and optimizer state are: null if in memory (train.offload). The folder
// is made if it is missing.
std::shared_ptr<Offload> make_offload(const config::Recipe& recipe);

// Fills `params`, laid out as recipe.model says, from train.init, whose model the recipe has
// adopted (train/initial_model.h) unless it is external, or at random from run.seed. Throws
// UsageError if a file for an external model lacks tensors or has others, and if a model's tokens
// differ from those of `vocabulary` (null: not compared); a message says if the folder has
// no vocabulary to compare.
void set_initial_parameters(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                            tensor::Arena& params, const events::MessageSink& message);

// Tensors that a run with an adapter does not train (method/adapters/adapter.h).
struct FrozenWeights {
  FrozenWeights(std::vector<TensorSpec> specs, WeightFormat format,
                std::shared_ptr<Offload> offload);
  FrozenWeights(const FrozenWeights& other);
  FrozenWeights& operator=(const FrozenWeights&) = delete;

  const tensor::Layout layout;
  tensor::Arena values;
};

// What a run starts from.
struct StartingWeights {
  std::shared_ptr<tensor::Arena> trained;
  // Shared by the workers of a process; null if all tensors are trained.
  std::shared_ptr<FrozenWeights> frozen;
  // The digest of the model that train.init names, for runs with lora (checkpoint/adapter_base.h).
  uint64_t base_digest = 0;
};

// The layout is that of the recipe's trained tensors, and must outlive the result. Throws as
// set_initial_parameters does, and as convert::read_factors for adapter.init.
StartingWeights starting_weights(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                                 const tensor::Layout& layout, const events::MessageSink& message);

// Draws new values for all factors of a run with an adapter (method::initial_factor), from run.seed
// and `draw`; the same everywhere.
void draw_factors(const config::Recipe& recipe, uint64_t draw, tensor::Arena& trained);

// The parameters with which the workers of a process begin.
class InitialParameters {
 public:
  // frozen: those that every worker changes for itself (relora); null: none.
  InitialParameters(std::shared_ptr<tensor::Arena> values, int workers,
                    std::shared_ptr<FrozenWeights> frozen = {})
      : values_(std::move(values)),
        left_(workers),
        frozen_(std::move(frozen)),
        frozen_left_(workers) {}

  // Each worker calls this once, on its own thread. It gets a copy or, if all others have theirs,
  // the values themselves: a process with one worker never holds its parameters twice.
  tensor::Arena take();
  // The same for the frozen weights, if there are any.
  std::shared_ptr<FrozenWeights> take_frozen();

 private:
  std::shared_ptr<tensor::Arena> values_;
  std::atomic<int> left_;
  std::shared_ptr<FrozenWeights> frozen_;
  std::atomic<int> frozen_left_;
};

}  // namespace thinwire::train
