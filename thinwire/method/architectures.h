// The table of architectures. A new one adds its line in architectures.cpp, in model/registry.cpp
// and, where Hugging Face has it, in convert/hf_architectures.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/method/architecture.h"

namespace thinwire::method {

std::span<const Architecture* const> all_architectures();

// Throws UsageError that lists the known names.
const Architecture& find_architecture(std::string_view name);

// The facts of the model's architecture (see architecture.h).
std::vector<TensorSpec> tensors_of(const ModelSpec& model);
std::vector<TensorSpec> tensors_of(const config::Recipe& recipe);
double train_flops_per_token(const ModelSpec& model, int64_t sequence);
double train_flops_per_token(const config::Recipe& recipe);  // at train.sequence

int64_t parameter_count(std::span<const TensorSpec> tensors);
// Without embedding and head.
int64_t non_embedding_count(std::span<const TensorSpec> tensors);

}  // namespace thinwire::method
