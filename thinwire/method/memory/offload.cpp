#include "thinwire/method/memory/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/memory/formats.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/memory/slabs.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

constexpr double kReadAhead = 0.5;  // beside the largest tensor

double trained_bytes(const config::Recipe& recipe, const OptimizerOptions& options,
                     std::span<const TensorSpec> tensors) {
  const StateBytes state = optimizer_state(options, tensors);
  return weight_bytes(tensors, trained_format(recipe)) + state.consensus + state.local;
}

// Of a tensor, in memory at once: a pass reads all weights of an embedding or head that is cut into
// slabs, but the optimizer updates one slab at a time.
double bytes_at_once(const config::Recipe& recipe, const OptimizerOptions& options,
                     const TensorSpec& tensor) {
  const auto elements = static_cast<double>(tensor.count());
  const double share =
      static_cast<double>(formed_elements(tensor, recipe.model.vocab_slabs)) / elements;
  const std::span one(&tensor, 1);
  const double weights = weight_bytes(one, trained_format(recipe));
  return weights + share * (trained_bytes(recipe, options, one) - weights);
}

std::vector<TensorSpec> frozen_tensors(const config::Recipe& recipe) {
  if (!is_adapted(recipe.adapter)) return {};
  return adapted_tensors(ModelSpec(recipe), recipe.adapter).frozen;
}

}  // namespace

void check_offload(const config::Recipe& recipe) {
  if (!recipe.train.offload) return;
  if (recipe.train.device != "cpu" && recipe.train.device != "auto") {
    throw UsageError(fmt::format(
        "[train] offload = true needs device = \"cpu\", got \"{}\": a device computes with weights "
        "in its own memory",
        recipe.train.device));
  }
}

double outer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const Method& method = find_method(recipe.sync.method);
  return method.local_updates ? method.state(recipe, tensors).consensus : 0;
}

double offloaded_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const std::vector<TensorSpec> frozen = frozen_tensors(recipe);
  return trained_bytes(recipe, optimizer_options(recipe), tensors) + outer_bytes(recipe, tensors) +
         weight_bytes(frozen, recipe.train.weights);
}

double offload_window(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const OptimizerOptions options = optimizer_options(recipe);
  double largest = 0;
  for (const TensorSpec& tensor : tensors) {
    largest = std::max(largest, bytes_at_once(recipe, options, tensor));
  }
  const std::vector<TensorSpec> frozen = frozen_tensors(recipe);
  for (const TensorSpec& tensor : frozen) {
    largest = std::max(largest, weight_bytes(std::span(&tensor, 1), recipe.train.weights));
  }
  return std::min((1 + kReadAhead) * largest, offloaded_bytes(recipe, tensors));
}

}  // namespace thinwire::method
