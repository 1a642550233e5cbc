#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/values.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::method {

#define THINWIRE_OPTIMIZER(Name) extern const OptimizerSpec k##Name;
#include "thinwire/optimizers/optimizers.inc"
#undef THINWIRE_OPTIMIZER

namespace {

constexpr std::array kOptimizers = {
#define THINWIRE_OPTIMIZER(Name) &k##Name,
#include "thinwire/optimizers/optimizers.inc"
#undef THINWIRE_OPTIMIZER
};

}  // namespace

std::span<const OptimizerSpec* const> all_optimizers() { return kOptimizers; }

const OptimizerSpec& find_optimizer(std::string_view name) {
  config::StringList known;
  for (const OptimizerSpec* optimizer : kOptimizers) {
    if (optimizer->name == name) return *optimizer;
    known.emplace_back(optimizer->name);
  }
  if (name == kOwn.name) return kOwn;
  known.emplace_back(kOwn.name);
  const std::string near = config::nearest_name(name, known);
  throw UsageError(fmt::format("[optim] method must be one of {}, got \"{}\"{}",
                               fmt::join(known, ", "), name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

Shape gradient_shape(const OptimizerOptions& options, const TensorSpec& tensor) {
  if (!options.projected || options.spec->subspace == nullptr) return tensor.shape;
  const LowRankShape shape = options.spec->subspace(options, tensor);
  return shape.rank == 0 ? tensor.shape : shape.core();
}

OptimizerOptions optimizer_options(const config::Recipe& recipe) {
  OptimizerOptions options;
  options.spec = &find_optimizer(recipe.optim.method);
  options.lr = recipe.optim.lr;
  options.weight_decay = recipe.optim.weight_decay;
  options.tied = recipe.model.tied;
  options.seed = static_cast<uint64_t>(recipe.run.seed);
  options.state = recipe.optim.state;
  options.bases = recipe.optim.bases;
  options.projected = recipe.optim.gradients == config::GradientCoordinates::kProjected;
  for (const OptimizerSpec* optimizer : kOptimizers) {
    options.sections[optimizer->name] =
        recipe.section<config::Section>(std::string(optimizer->name)).clone();
  }
  return options;
}

}  // namespace thinwire::method
