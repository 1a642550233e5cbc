#include "thinwire/method/memory/formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

bool keeps_bases(const OptimizerSpec& optimizer, OptimizerOptions options,
                 std::span<const TensorSpec> tensors) {
  options.spec = &optimizer;
  return std::ranges::any_of(tensors, [&](const TensorSpec& tensor) {
    return std::ranges::any_of(optimizer.state(options, tensor), [](const StatePiece& piece) {
      return piece.kind == StateKind::kBasis;
    });
  });
}

void check_bases(const config::Recipe& recipe) {
  if (recipe.optim.bases == StateFormat::kF32) return;
  ModelSpec model(recipe);
  model.vocab = std::max<int64_t>(model.vocab, 1);  // may not be known yet, and does not matter
  const std::vector<TensorSpec> tensors = tensors_of(model);
  const OptimizerOptions options = optimizer_options(recipe);
  if (keeps_bases(*options.spec, options, tensors)) return;
  std::vector<std::string_view> able;
  for (const OptimizerSpec* one : all_optimizers()) {
    if (keeps_bases(*one, options, tensors)) able.push_back(one->name);
  }
  throw UsageError(
      fmt::format("[optim] bases = \"{}\" needs an optimizer that keeps bases of subspaces ({}), "
                  "got method = \"{}\"; choose one of them or bases = \"fp32\"",
                  name_of(recipe.optim.bases), fmt::join(able, ", "), recipe.optim.method));
}

void check_block_inputs(const config::Recipe& recipe) {
  if (recipe.model.block_inputs == "fp32") return;
  if (recipe.model.recompute != "block") {
    throw UsageError(
        fmt::format("[model] block_inputs = \"bf16\" needs recompute = \"block\", got \"{}\": "
                    "otherwise blocks keep more than their inputs",
                    recipe.model.recompute));
  }
  if (recipe.train.precision == "bf16") return;
  throw UsageError(
      fmt::format("[model] block_inputs = \"bf16\" needs train.precision = \"bf16\", got \"{}\": "
                  "they are rounded like what the matrix products read",
                  recipe.train.precision));
}

std::string methods_that_keep_bf16() {
  std::vector<std::string_view> names;
  for (const Method* method : all_methods()) {
    if (method->keeps_bf16_weights) names.push_back(method->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_weights(const config::Recipe& recipe) {
  const config::TrainSection& train = recipe.train;
  if (train.weights == WeightFormat::kF32) return;
  if (train.precision != "bf16") {
    throw UsageError(
        fmt::format("[train] weights = \"bf16\" needs precision = \"bf16\", got \"{}\": matrix "
                    "products take the weights as they are kept",
                    train.precision));
  }
  if (train.device != "cpu") {
    throw UsageError(
        fmt::format("[train] weights = \"bf16\" needs device = \"cpu\", got \"{}\"", train.device));
  }
  if (recipe.adapter.kind == "lora") return;  // nothing changes its base
  if (is_adapted(recipe.adapter)) {
    throw UsageError(
        fmt::format("[train] weights = \"bf16\" needs [adapter] kind = \"lora\" or \"none\", got "
                    "\"{}\", which changes all matrices in fp32",
                    recipe.adapter.kind));
  }
  if (find_method(recipe.sync.method).keeps_bf16_weights) return;
  throw UsageError(fmt::format(
      "[train] weights = \"bf16\" needs a method that changes weights only through the optimizer "
      "({}), got sync.method = \"{}\"",
      methods_that_keep_bf16(), recipe.sync.method));
}

}  // namespace

WeightFormat trained_format(const config::Recipe& recipe) {
  return is_adapted(recipe.adapter) ? WeightFormat::kF32 : recipe.train.weights;
}

void check_formats(const config::Recipe& recipe) {
  check_weights(recipe);
  check_bases(recipe);
  check_block_inputs(recipe);
}

}  // namespace thinwire::method
