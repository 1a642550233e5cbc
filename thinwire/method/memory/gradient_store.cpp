#include "thinwire/method/memory/gradient_store.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/optimizers/galore/galore_spec.h"

namespace thinwire::method {
namespace {

using config::UpdateTime;

bool projects(const config::Recipe& recipe) {
  return recipe.optim.gradients == config::GradientCoordinates::kProjected;
}

bool clips_by_step(const config::OptimSection& optim) {
  return optim.clip > 0 && optim.clip_by == config::ClipBy::kStep;
}

// The elements of all projected matrices, the largest first.
std::vector<int64_t> projected_matrices(const OptimizerOptions& options,
                                        std::span<const TensorSpec> tensors) {
  std::vector<int64_t> counts;
  for (const TensorSpec& tensor : tensors) {
    if (options.spec->subspace(options, tensor).rank > 0) {
      counts.push_back(padded_elements(tensor.count()));
    }
  }
  std::ranges::sort(counts, std::greater());
  return counts;
}

// The whole gradients of matrices whose bases are renewed in the same step are held together if the
// step takes several passes, else one after another. Seeded bases need none.
int64_t renewed_elements(const config::Recipe& recipe, const OptimizerOptions& options,
                         std::span<const TensorSpec> tensors) {
  const std::vector<int64_t> counts = projected_matrices(options, tensors);
  if (counts.empty() || draws_bases(recipe)) return 0;
  if (!takes_several_passes(recipe)) return counts.front();
  int64_t every = 1;
  for (const TensorSpec& tensor : tensors) {
    every = std::max(every, options.spec->subspace(options, tensor).refresh);
  }
  const auto all = static_cast<int64_t>(counts.size());
  return std::accumulate(counts.begin(), counts.begin() + (all + every - 1) / every, int64_t{0});
}

// One tensor at a time, and a tied embedding throughout.
int64_t streamed_elements(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  int64_t largest = 0, held = 0;
  for (const TensorSpec& tensor : tensors) {
    const bool stays = recipe.model.tied && tensor.role == TensorRole::kEmbedding;
    int64_t& most = stays ? held : largest;
    most = std::max(most, padded_elements(formed_elements(tensor, recipe.model.vocab_slabs)));
  }
  return largest + held;
}

}  // namespace

GradientStore gradient_store(const config::Recipe& recipe) {
  const bool at_once = recipe.train.update == UpdateTime::kLayer;
  if (!projects(recipe)) return at_once ? GradientStore::kStreamed : GradientStore::kWhole;
  const bool kept = !at_once || takes_several_passes(recipe) || clips_by_step(recipe.optim);
  return kept ? GradientStore::kProjected : GradientStore::kStreamed;
}

int64_t rows_per_pass(const config::TrainSection& train) {
  const int64_t largest_share = (train.batch + train.workers - 1) / train.workers;
  return train.microbatch == 0 ? largest_share : std::min(train.microbatch, largest_share);
}

bool takes_several_passes(const config::Recipe& recipe) {
  const config::TrainSection& train = recipe.train;
  const int64_t rows = (train.batch + train.workers - 1) / train.workers;
  return (train.microbatch != 0 && train.microbatch < rows) ||
         recipe.sync.shares != config::RowShares::kEqual || !recipe.sync.absent.empty();
}

std::vector<TensorSpec> gradient_tensors(const OptimizerOptions& options,
                                         std::span<const TensorSpec> tensors) {
  std::vector<TensorSpec> gradients(tensors.begin(), tensors.end());
  for (TensorSpec& tensor : gradients) tensor.shape = gradient_shape(options, tensor);
  return gradients;
}

double projected_gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const OptimizerOptions options = optimizer_options(recipe);
  const bool kept = gradient_store(recipe) == GradientStore::kProjected;
  const int64_t elements = kept ? arena_elements(gradient_tensors(options, tensors)) +
                                      renewed_elements(recipe, options, tensors)
                                : streamed_elements(recipe, tensors);
  return sizeof(float) * static_cast<double>(elements);
}

}  // namespace thinwire::method
