// The parameters of a Llama model as shapes (Touvron et al. 2023, arXiv 2302.13971): pure facts,
// shared by the trainer, the methods' byte counts and the planner.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/model_section.h"

namespace thinwire::config {

// In the order of the arena: embedding, then for each block attention norm, q, k, v, o, MLP norm,
// gate, up, down, then final norm and (untied) head. Names are Hugging Face's. model.vocab must be
// set.
std::vector<TensorSpec> llama_tensors(const ModelSection& model);

int64_t parameter_count(const std::vector<TensorSpec>& tensors);
// Without embedding and head.
int64_t non_embedding_count(const std::vector<TensorSpec>& tensors);

// Floating-point operations of one token forward and backward: 6 an active matrix parameter (head
// included, embedding look-up not) plus attention's 12 * layers * hidden * sequence / 2 (causal).
double train_flops_per_token(const ModelSection& model, int64_t sequence);

}  // namespace thinwire::config
