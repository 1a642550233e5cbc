#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/config/values.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {

#define THINWIRE_ARCHITECTURE(Name) extern const Architecture k##Name;
#include "thinwire/architectures/architectures.inc"
#undef THINWIRE_ARCHITECTURE

namespace {

constexpr std::array kArchitectures = {
#define THINWIRE_ARCHITECTURE(Name) &k##Name,
#include "thinwire/architectures/architectures.inc"
#undef THINWIRE_ARCHITECTURE
};

// Parameters of the products.
double multiplied(std::span<const TensorSpec> tensors) {
  double count = 0;
  for (const TensorSpec& tensor : tensors) {
    const bool counts = tensor.role == TensorRole::kMatrix || tensor.role == TensorRole::kHead;
    if (counts) count += static_cast<double>(tensor.count());
  }
  return count;
}

}  // namespace

std::span<const Architecture* const> all_architectures() { return kArchitectures; }

const Architecture& find_architecture(std::string_view name) {
  config::StringList known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->name == name) return *architecture;
    known.emplace_back(architecture->name);
  }
  if (name == kExternal.name) return kExternal;
  known.emplace_back(kExternal.name);
  const std::string near = config::nearest_name(name, known);
  throw UsageError(fmt::format("[model] architecture must be one of {}, got \"{}\"{}",
                               fmt::join(known, ", "), name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

std::vector<TensorSpec> tensors_of(const ModelSpec& model) {
  return find_architecture(model.architecture).tensors(model);
}

std::vector<TensorSpec> tensors_of(const config::Recipe& recipe) {
  return adapted_tensors(ModelSpec(recipe), recipe.adapter).trained;
}

double train_flops_per_token(const ModelSpec& model, int64_t sequence) {
  return find_architecture(model.architecture).flops_per_token(model, sequence);
}

double train_flops_per_token(const config::Recipe& recipe) {
  const ModelSpec model(recipe);
  const double whole = train_flops_per_token(model, recipe.train.sequence);
  if (!is_adapted(recipe.adapter)) return whole;
  // A matrix takes 2 forward, 2 for the input's gradient and 2 for its own.
  const AdaptedTensors adapted = adapted_tensors(model, recipe.adapter);
  return whole - 6 * multiplied(tensors_of(model)) + 4 * multiplied(adapted.frozen) +
         6 * multiplied(adapted.trained);
}

std::vector<bool> multiplied_tensors(const ModelSpec& model, std::span<const TensorSpec> tensors) {
  std::vector<bool> multiplied(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    multiplied[i] = tensors[i].role != TensorRole::kEmbedding || model.tied;
  }
  return multiplied;
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
