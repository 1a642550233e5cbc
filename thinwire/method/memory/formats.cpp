#include "thinwire/method/memory/formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// Whether the optimizer has state of its own that may be kept in fewer bits than fp32; that of the
// optimizer for the rest does not count.
bool keeps_means(const config::Recipe& recipe) {
  const OptimizerOptions options = optimizer_options(recipe);
  const auto of_rest = [&](const StatePiece& piece) {
    return options.spec->rest != nullptr &&
           piece.name.starts_with(fmt::format("{}.", options.spec->rest->name));
  };
  ModelSpec model(recipe);
  model.vocab = std::max<int64_t>(model.vocab, 1);  // may not be known yet, and does not matter
  return std::ranges::any_of(tensors_of(model), [&](const TensorSpec& tensor) {
    return std::ranges::any_of(options.spec->state(options, tensor), [&](const StatePiece& piece) {
      return piece.kind != StateKind::kExact && !of_rest(piece);
    });
  });
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
  if (is_adapted(recipe.adapter)) {
    throw UsageError(
        fmt::format("[train] weights = \"bf16\" needs [adapter] kind = \"none\", got \"{}\": "
                    "adapters are trained in fp32",
                    recipe.adapter.kind));
  }
  if (find_method(recipe.sync.method).keeps_bf16_weights) return;
  throw UsageError(fmt::format(
      "[train] weights = \"bf16\" needs a method that changes weights only through the optimizer "
      "({}), got sync.method = \"{}\"",
      methods_that_keep_bf16(), recipe.sync.method));
}

}  // namespace

void check_formats(const config::Recipe& recipe) {
  check_weights(recipe);
  const config::OptimSection& optim = recipe.optim;
  if (optim.state == StateFormat::kF32 || keeps_means(recipe)) return;
  throw UsageError(
      fmt::format("[optim] state = \"{}\" needs an optimizer that keeps running means of all "
                  "matrices, got method = \"{}\", whose state is fp32; choose state = \"fp32\"",
                  name_of(optim.state), optim.method));
}

}  // namespace thinwire::method
