#include <algorithm>
#include <array>

#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/optimizers/galore/galore_spec.h"

namespace thinwire::method {
namespace {

constexpr uint32_t kFirstFragment = 1 << 16;
constexpr uint32_t kSumsOfATensor = 2 * kFirstIterations;

bool averages_bases(const config::Recipe& recipe) {
  return recipe.optim.gradients == config::GradientCoordinates::kProjected &&
         members_of_a_step(recipe) > 1 && !draws_bases(recipe);
}

std::vector<LowRankShape> shapes_of(const config::Recipe& recipe,
                                    std::span<const TensorSpec> tensors) {
  std::vector<LowRankShape> shapes;
  if (!averages_bases(recipe)) return shapes;
  const OptimizerOptions options = optimizer_options(recipe);
  for (const TensorSpec& tensor : tensors) {
    shapes.push_back(options.spec->subspace(options, tensor));
  }
  return shapes;
}

RefreshPlan plan_of(std::span<const LowRankShape> shapes) {
  LowRankFields fields;
  for (const LowRankShape& shape : shapes) {
    if (shape.rank > 0) fields.refresh = shape.refresh;
  }
  return {fields, shapes};
}

// The sizes of the two sums of an iteration.
std::array<int64_t, 2> elements_of(const LowRankShape& shape) {
  const int64_t rows = shape.rows * shape.rank, columns = shape.rank * shape.columns;
  const bool rows_alone = !shape.projects_columns();
  return rows_alone ? std::array{columns, rows} : std::array{rows, columns};
}

}  // namespace

std::vector<BasisSum> basis_sums(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                                 int64_t step) {
  std::vector<BasisSum> sums;
  const std::vector<LowRankShape> shapes = shapes_of(recipe, tensors);
  const RefreshPlan plan = plan_of(shapes);
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    if (shapes[tensor].rank == 0) continue;
    const bool due = plan.due(tensor, static_cast<uint64_t>(step));
    const uint32_t count = step == 0 ? kSumsOfATensor : due ? 2 : 0;
    for (uint32_t number = 0; number < count; ++number) {
      sums.push_back({tensor, number, elements_of(shapes[tensor])[number % 2]});
    }
  }
  return sums;
}

BasisTraffic basis_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  BasisTraffic traffic;
  const std::vector<LowRankShape> shapes = shapes_of(recipe, tensors);
  const RefreshPlan plan = plan_of(shapes);
  const WireType wire = basis_wire(recipe.section<AllReduceOptions>("allreduce").wire);
  const auto last = static_cast<uint64_t>(recipe.train.steps - 1);
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    if (shapes[tensor].rank == 0) continue;
    const uint64_t renewals = plan.renewals(tensor, last) - plan.renewals(tensor, 0);
    const auto iterations = static_cast<double>(kFirstIterations + renewals);
    for (const int64_t elements : elements_of(shapes[tensor])) {
      traffic.sums += iterations;
      traffic.bytes +=
          iterations * static_cast<double>(wire_bytes(wire, static_cast<uint64_t>(elements)));
    }
  }
  traffic.sums /= static_cast<double>(recipe.train.steps);
  traffic.bytes /= static_cast<double>(recipe.train.steps);
  return traffic;
}

int64_t largest_basis_sum(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  int64_t largest = 0;
  for (const LowRankShape& shape : shapes_of(recipe, tensors)) {
    if (shape.rank > 0) largest = std::max(largest, std::ranges::max(elements_of(shape)));
  }
  return largest;
}

uint32_t basis_fragment(size_t tensor, uint32_t number) {
  return kFirstFragment + static_cast<uint32_t>(tensor) * kSumsOfATensor + number;
}

WireType basis_wire(WireType gradients) {
  return gradients == WireType::kF32 ? WireType::kF32 : WireType::kBf16;
}

}  // namespace thinwire::method
