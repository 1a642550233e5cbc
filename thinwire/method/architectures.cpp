#include "thinwire/method/architectures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"
#include "thinwire/method/llama.h"

namespace thinwire::method {
namespace {

constexpr std::array kArchitectures = {
    &kLlama,
};

}  // namespace

std::span<const Architecture* const> all_architectures() { return kArchitectures; }

const Architecture& find_architecture(std::string_view name) {
  config::StringList known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->name == name) return *architecture;
    known.emplace_back(architecture->name);
  }
  const std::string near = config::nearest_name(name, known);
  throw UsageError(fmt::format("[model] architecture must be one of {}, got \"{}\"{}",
                               fmt::join(known, ", "), name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

std::vector<TensorSpec> tensors_of(const ModelSpec& model) {
  return find_architecture(model.architecture).tensors(model);
}

std::vector<TensorSpec> tensors_of(const config::Recipe& recipe) {
  return tensors_of(ModelSpec(recipe));
}

double train_flops_per_token(const ModelSpec& model, int64_t sequence) {
  return find_architecture(model.architecture).flops_per_token(model, sequence);
}

double train_flops_per_token(const config::Recipe& recipe) {
  return train_flops_per_token(ModelSpec(recipe), recipe.train.sequence);
}

int64_t parameter_count(std::span<const TensorSpec> tensors) {
  int64_t count = 0;
  for (const TensorSpec& tensor : tensors) count += tensor.count();
  return count;
}

int64_t non_embedding_count(std::span<const TensorSpec> tensors) {
  int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!tensor.is_vocabulary_sized()) count += tensor.count();
  }
  return count;
}

}  // namespace thinwire::method
