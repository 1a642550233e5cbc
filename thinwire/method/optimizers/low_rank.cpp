#include "thinwire/method/optimizers/low_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/names.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/method.h"
#include "thinwire/methods/distro/distro_spec.h"

namespace thinwire::method {
namespace {

struct RankRule {
  std::string_view pattern;
  int64_t rank;
};

std::optional<RankRule> rank_rule_of(std::string_view entry) {
  const size_t equals = entry.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  const std::string_view digits = entry.substr(equals + 1);
  RankRule rule = {entry.substr(0, equals), 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), rule.rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rule.rank < 0) {
    return std::nullopt;
  }
  return rule;
}

std::vector<TensorSpec> hidden_matrices(ModelSpec model) {
  model.vocab = std::max<int64_t>(model.vocab, 1);  // may not be known yet, and does not matter
  std::vector<TensorSpec> matrices;
  for (TensorSpec& tensor : tensors_of(model)) {
    if (tensor.is_hidden_matrix()) matrices.push_back(std::move(tensor));
  }
  return matrices;
}

void check_patterns(std::string_view section, const LowRankFields& fields,
                    const std::vector<TensorSpec>& matrices) {
  for (const std::string& entry : fields.ranks) {
    const auto rule = rank_rule_of(entry);
    if (!rule) {
      throw UsageError(fmt::format(
          "[{}] ranks must be like \"*.mlp.*=64\", a pattern and a rank >= 0, got \"{}\"", section,
          entry));
    }
    const auto found = std::ranges::find_if(matrices, [&](const TensorSpec& tensor) {
      return matches_pattern(rule->pattern, tensor.name);
    });
    if (found != matrices.end()) continue;
    throw UsageError(
        fmt::format("[{}] ranks: \"{}\" matches no matrix of the blocks; their names are like {}",
                    section, entry, matrices.front().name));
  }
}

}  // namespace

void LowRankFields::describe(config::Fields& fields) {
  fields.integer("rank", rank, "", 0, 1'000'000,
                 "Dimensions of the subspace in which a matrix of the blocks is updated; 0 means a "
                 "quarter of its smaller dimension.");
  fields.list("ranks", ranks,
              "Ranks for matrices whose names match, as \"PATTERN=RANK\" with * for any text, e.g. "
              "\"*.mlp.*=64\"; the first that matches counts, and 0 leaves a matrix to adamw.");
  fields.integer(
      "refresh", refresh, "steps", 1, 1'000'000'000,
      "Steps between renewals of a matrix's subspace; the matrices' renewals are staggered.");
}

void describe_subspace_step(config::Fields& fields, double& scale, Moments& moments) {
  fields.number_above("scale", scale, "", 0, 1e6,
                      "Multiplies the matrices' steps in addition to the learning rate.");
  describe_moments(fields, moments);
}

void describe_moments(config::Fields& fields, Moments& moments) {
  fields.choice("moments", moments,
                "Whether Adam's moments are kept as they are or rotated into the new basis when a "
                "subspace is renewed.");
}

LowRankShape low_rank_shape(const LowRankFields& fields, const TensorSpec& tensor, Sides sides) {
  if (!tensor.is_hidden_matrix()) return {};
  LowRankShape shape = {.columns = tensor.shape.back(),
                        .sides = sides,
                        .refresh = fields.refresh,
                        .basis = fields.basis};
  shape.rows = tensor.count() / shape.columns;
  const int64_t smaller = std::min(shape.rows, shape.columns);
  shape.rank = fields.rank > 0 ? fields.rank : std::max<int64_t>(smaller / 4, 1);
  for (const std::string& entry : fields.ranks) {
    const auto rule = rank_rule_of(entry);
    if (!rule || !matches_pattern(rule->pattern, tensor.name)) continue;
    shape.rank = rule->rank;
    break;
  }
  return shape;
}

void check_ranks(std::string_view section, const LowRankFields& fields,
                 const config::Recipe& recipe) {
  const std::vector<TensorSpec> matrices = hidden_matrices(ModelSpec(recipe));
  check_patterns(section, fields, matrices);
  for (const TensorSpec& tensor : matrices) {
    const LowRankShape shape = low_rank_shape(fields, tensor);
    const int64_t smaller = std::min(shape.rows, shape.columns);
    if (shape.rank <= smaller) continue;
    throw UsageError(fmt::format(
        "[{}] rank of {} must be <= {}, its smaller dimension, got {}; lower rank, or set ranks = "
        "[\"{}={}\"]",
        section, tensor.name, smaller, shape.rank, tensor.name, smaller));
  }
}

void check_shared_gradient(std::string_view optimizer, const config::Recipe& recipe) {
  const config::SyncSection& sync = recipe.sync;
  for (const auto& [field, method] :
       {std::pair("method", std::string_view(sync.method)), {"within", name_of(sync.within)}}) {
    if (method != kDistro.name) continue;
    throw UsageError(fmt::format(
        "[optim] method = \"{}\" needs gradients that all replicas share, or workers that train "
        "independently, got [sync] {} = \"{}\", whose replicas share compressed momentum only; use "
        "adamw, galore with galore.basis = \"seeded\", or sync.method = \"allreduce\"",
        optimizer, field, method));
  }
}

RefreshPlan::RefreshPlan(const LowRankFields& fields, std::span<const LowRankShape> shapes)
    : every_(static_cast<uint64_t>(fields.refresh)), offsets_(shapes.size()) {
  const auto taken = static_cast<uint64_t>(
      std::ranges::count_if(shapes, [](const LowRankShape& shape) { return shape.rank > 0; }));
  uint64_t matrices = 0;
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    if (shapes[tensor].rank > 0) offsets_[tensor] = matrices++ * every_ / taken;
  }
}

bool RefreshPlan::due(size_t tensor, uint64_t step) const {
  return step > 0 && (step + every_ - offsets_[tensor]) % every_ == 0;
}

uint64_t RefreshPlan::renewals(size_t tensor, uint64_t step) const {
  return (step + every_ - offsets_[tensor]) / every_;
}

uint64_t RefreshPlan::renewals_before(size_t tensor, uint64_t step) const {
  return renewals(tensor, std::max<uint64_t>(step, 1) - 1);
}

}  // namespace thinwire::method
