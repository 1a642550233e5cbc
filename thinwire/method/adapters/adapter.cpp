#include "thinwire/method/adapters/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/names.h"
#include "thinwire/config/values.h"
#include "thinwire/method/adapters/relora.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {
namespace {

constexpr std::array kFacts = {
    AdapterFacts{AdapterKind::kNone, "All of the model is trained."},
    AdapterFacts{AdapterKind::kLora,
                 "Trains two low-rank factors for each chosen matrix; the model itself is frozen."},
    AdapterFacts{.kind = AdapterKind::kRelora,
                 .sentence =
                     "Like lora, but from time to time the factors are merged into their matrices "
                     "and drawn again, so that training from scratch reaches a high rank.",
                 .merges = true},
    AdapterFacts{.kind = AdapterKind::kLowRank,
                 .sentence = "Trains two low-rank factors in place of each chosen matrix, from "
                             "scratch, together with all other tensors.",
                 .has_base = false},
};

constexpr std::string_view kSuffix = ".weight";
constexpr std::string_view kFactorA = ".lora_A.weight";
constexpr std::string_view kFactorB = ".lora_B.weight";

std::string_view module_of(std::string_view tensor) {
  return tensor.ends_with(kSuffix) ? tensor.substr(0, tensor.size() - kSuffix.size()) : tensor;
}

// Whether the pattern matches the tensor's module, or what follows one of the dots in its name.
bool chooses(std::string_view pattern, const TensorSpec& tensor) {
  std::string_view name = module_of(tensor.name);
  while (true) {
    if (matches_pattern(pattern, name)) return true;
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) return false;
    name = name.substr(dot + 1);
  }
}

// Patterns, of which those without a star are looked up: a PEFT folder has one for each matrix.
class Patterns {
 public:
  explicit Patterns(const config::StringList& patterns) {
    for (const std::string& pattern : patterns) {
      if (pattern.find('*') == std::string::npos) {
        names_.insert(pattern);
      } else {
        wild_.push_back(pattern);
      }
    }
  }

  bool choose(const TensorSpec& tensor) const {
    std::string_view name = module_of(tensor.name);
    while (!names_.contains(name)) {
      const size_t dot = name.find('.');
      if (dot == std::string_view::npos) {
        return std::ranges::any_of(
            wild_, [&](const std::string& pattern) { return chooses(pattern, tensor); });
      }
      name = name.substr(dot + 1);
    }
    return true;
  }

 private:
  std::set<std::string, std::less<>> names_;
  config::StringList wild_;
};

class Choice {
 public:
  explicit Choice(const AdapterSpec& adapter) : targets_(adapter.targets), whole_(adapter.whole) {}

  bool has_factors(const TensorSpec& tensor) const {
    return tensor.is_hidden_matrix() && targets_.choose(tensor);
  }
  bool whole(const TensorSpec& tensor) const { return whole_.choose(tensor); }

 private:
  Patterns targets_;
  Patterns whole_;
};

std::vector<TensorSpec> tensors_to_adapt(const config::Recipe& recipe) {
  ModelSpec model(recipe);
  model.vocab = std::max<int64_t>(model.vocab, 1);  // may not be known yet, and does not matter
  return tensors_of(model);
}

void check_patterns(const AdapterSpec& adapter, std::span<const TensorSpec> tensors) {
  if (adapter.targets.empty()) {
    throw UsageError(
        "[adapter] targets is empty, so nothing would have factors; name matrices, e.g. "
        "[\"q_proj\", \"v_proj\"]");
  }
  const auto require_match = [&](const char* field, const std::string& pattern, auto may_match) {
    const TensorSpec* like = nullptr;
    for (const TensorSpec& tensor : tensors) {
      if (!may_match(tensor)) continue;
      if (chooses(pattern, tensor)) return;
      like = &tensor;
    }
    throw UsageError(fmt::format(
        "[adapter] {}: \"{}\" matches no {}; their names are like {}", field, pattern,
        *field == 't' ? "matrix of the blocks" : "tensor without factors", module_of(like->name)));
  };
  for (const std::string& pattern : adapter.targets) {
    require_match("targets", pattern,
                  [](const TensorSpec& tensor) { return tensor.is_hidden_matrix(); });
  }
  const Choice choice(adapter);
  for (const std::string& pattern : adapter.whole) {
    require_match("whole", pattern,
                  [&](const TensorSpec& tensor) { return !choice.has_factors(tensor); });
  }
}

void check_rank(const AdapterSpec& adapter, std::span<const TensorSpec> tensors) {
  const Choice choice(adapter);
  for (const TensorSpec& tensor : tensors) {
    if (!choice.has_factors(tensor)) continue;
    const int64_t smaller = std::ranges::min(tensor.shape);
    if (adapter.rank <= smaller) continue;
    throw UsageError(
        fmt::format("[adapter] rank must be <= {}, the smaller dimension of {}, got {}", smaller,
                    module_of(tensor.name), adapter.rank));
  }
}

}  // namespace

std::span<const AdapterFacts> all_adapters() { return kFacts; }

const AdapterFacts& facts_of(const AdapterSpec& adapter) {
  return kFacts[static_cast<size_t>(adapter.kind)];
}

FactorNames factor_names(std::string_view matrix) {
  const std::string module(module_of(matrix));
  return {module + std::string(kFactorA), module + std::string(kFactorB)};
}

bool is_factor(const TensorSpec& tensor) {
  return tensor.name.ends_with(kFactorA) || tensor.name.ends_with(kFactorB);
}

AdaptedTensors adapted_tensors(const ModelSpec& model, const AdapterSpec& adapter) {
  AdaptedTensors adapted;
  if (!is_adapted(adapter)) {
    adapted.trained = tensors_of(model);
    return adapted;
  }
  const bool has_base = facts_of(adapter).has_base;
  const bool encodes = find_architecture(model.architecture).encodes;
  const Choice choice(adapter);
  for (TensorSpec& tensor : tensors_of(model)) {
    const bool classifies = encodes && tensor.layer == kNoLayer;
    if (choice.has_factors(tensor)) {
      const FactorNames names = factor_names(tensor.name);
      adapted.trained.push_back(
          {names.a, {adapter.rank, tensor.shape[1]}, tensor.role, tensor.layer});
      adapted.trained.push_back(
          {names.b, {tensor.shape[0], adapter.rank}, tensor.role, tensor.layer});
      if (has_base) adapted.frozen.push_back(std::move(tensor));
    } else if (!has_base || classifies || choice.whole(tensor)) {
      adapted.trained.push_back(std::move(tensor));
    } else {
      adapted.frozen.push_back(std::move(tensor));
    }
  }
  return adapted;
}

bool freezes_whole_base(const config::Recipe& recipe) {
  if (!is_adapted(recipe.adapter) || recipe.train.init.empty()) return false;
  const ModelSpec model(recipe);
  return adapted_tensors(model, recipe.adapter).frozen.size() == tensors_of(model).size();
}

InitialFactor initial_factor(const ModelSpec& model, const AdapterSpec& adapter,
                             const TensorSpec& factor) {
  const bool is_a = factor.name.ends_with(kFactorA);
  if (facts_of(adapter).has_base) {
    return {.bound = is_a ? 1 / std::sqrt(static_cast<double>(factor.shape[1])) : 0};
  }
  TensorSpec matrix = factor;
  matrix.name.replace(matrix.name.size() - kFactorA.size(), kFactorA.size(), kSuffix);
  const double deviation = find_architecture(model.architecture).initial(model, matrix).deviation;
  const double rank_root = std::sqrt(static_cast<double>(adapter.rank));
  return {.deviation = std::sqrt(deviation / (factor_scale(adapter) * rank_root))};
}

void check_adapter(const config::Recipe& recipe) {
  if (!is_adapted(recipe.adapter)) return;
  const std::vector<TensorSpec> tensors = tensors_to_adapt(recipe);
  check_patterns(recipe.adapter, tensors);
  check_rank(recipe.adapter, tensors);
  if (facts_of(recipe.adapter).merges) check_relora(recipe);
}

}  // namespace thinwire::method
