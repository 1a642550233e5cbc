#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/plan/memory_choices.h"

namespace thinwire::plan {
namespace {

// What projecting a matrix's gradient, before or after it is formed from `tokens`, and lifting the
// step add to its work.
double projected(const method::LowRankShape& shape, double tokens, bool in_pass) {
  const auto rows = static_cast<double>(shape.rows), columns = static_cast<double>(shape.columns);
  const auto rank = static_cast<double>(shape.rank);
  const double lift = 2 * rank * rows * columns;
  if (!in_pass) return 2 * lift;
  const bool both = shape.sides == method::Sides::kTwo;
  const double factors = 2 * tokens * rank * (rows + columns + (both ? rank : 0));
  return factors + lift - 2 * tokens * rows * columns;
}

}  // namespace

double step_flops(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const config::TrainSection& train = recipe.train;
  const int64_t rows = (train.batch + train.workers - 1) / train.workers;
  const auto tokens = static_cast<double>(rows * train.sequence);
  const method::TokenWork work =
      method::find_architecture(recipe.model.architecture)
          .work(method::ModelSpec(recipe), {.rows = 1, .sequence = train.sequence});
  const double again =
      method::recomputed_flops(recipe, work) + method::head_flops(recipe, work) - work.head;
  double flops = tokens * (method::train_flops_per_token(recipe) + again);
  const method::OptimizerOptions optimizer = method::optimizer_options(recipe);
  for (const TensorSpec& tensor : tensors) {
    if (!tensor.is_hidden_matrix()) continue;
    if (optimizer.spec->flops != nullptr) flops += optimizer.spec->flops(tensor);
    if (optimizer.spec->subspace == nullptr) continue;
    const method::LowRankShape shape = optimizer.spec->subspace(optimizer, tensor);
    if (shape.rank > 0) flops += projected(shape, tokens, optimizer.projected);
  }
  return flops;
}

}  // namespace thinwire::plan
