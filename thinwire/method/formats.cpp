#include "thinwire/method/formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures.h"
#include "thinwire/method/model_spec.h"
#include "thinwire/method/optimizers.h"

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

}  // namespace

void check_formats(const config::Recipe& recipe) {
  const config::OptimSection& optim = recipe.optim;
  if (optim.state == StateFormat::kF32 || keeps_means(recipe)) return;
  throw UsageError(
      fmt::format("[optim] state = \"{}\" needs an optimizer that keeps running means of all "
                  "matrices, got method = \"{}\", whose state is fp32; choose state = \"fp32\"",
                  name_of(optim.state), optim.method));
}

}  // namespace thinwire::method
