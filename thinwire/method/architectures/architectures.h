// The table of architectures. A new one adds a line in architectures/architectures.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {

// Those whose models Thinwire computes.
std::span<const Architecture* const> all_architectures();

// One of these, or that of a program's own model (architectures/external). Throws UsageError
// listing the known names.
const Architecture& find_architecture(std::string_view name);

// The facts of the model's architecture (see architecture.h).
std::vector<TensorSpec> tensors_of(const ModelSpec& model);
double train_flops_per_token(const ModelSpec& model, int64_t sequence);

// The tensors that a run of the recipe trains, which are all that it synchronises and saves: those
// of the model, or with an adapter what that leaves (method/adapters/adapter.h).
std::vector<TensorSpec> tensors_of(const config::Recipe& recipe);
// At train.sequence. Without the gradients of tensors that are not trained.
double train_flops_per_token(const config::Recipe& recipe);

// Those that products read: all but an embedding that is not the head as well.
std::vector<bool> multiplied_tensors(const ModelSpec& model, std::span<const TensorSpec> tensors);

int64_t parameter_count(std::span<const TensorSpec> tensors);
// Number of parameters without embedding and head.
int64_t non_embedding_count(std::span<const TensorSpec> tensors);

}  // namespace thinwire::method
