// Adapters: a run trains two thin factors of each chosen matrix W [out, in] instead of the matrix,
//
//     y = x W^T + s (x A^T) B^T,   A [r, in], B [out, r], s = alpha / r
//
// (Hu et al. 2021, LoRA, arXiv 2106.09685, section 4.1). The factors, and tensors that the recipe
// trains in full, are the run's *trained* tensors: only they have gradients and optimizer state,
// are synchronised, digested and checkpointed. All others are *frozen*. Trainer and planner read
// the same facts. The products are in model/cpu_ops.h, merging in
// tensor/products/gemm.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/sections.h"
#include "thinwire/method/architectures/model_spec.h"

namespace thinwire::method {

// The fields of [adapter].
using AdapterSpec = config::AdapterSection;

using config::AdapterKind;

// What distinguishes the kinds of adapters; all compute the formula above.
struct AdapterFacts {
  AdapterKind kind;
  std::string_view sentence;  // for --explain and the docs
  // Whether there is a W. If not, s B A is the matrix, and all other tensors are trained in full.
  bool has_base = true;
  // Whether the run adds s B A to W from time to time and begins with new factors
  // (method/adapters/relora.h).
  bool merges = false;
};

// Those of all kinds, in the order of AdapterKind.
std::span<const AdapterFacts> all_adapters();
const AdapterFacts& facts_of(const AdapterSpec& adapter);

inline bool is_adapted(const AdapterSpec& adapter) { return adapter.kind != AdapterKind::kNone; }
// s
inline double factor_scale(const AdapterSpec& adapter) {
  return adapter.alpha / static_cast<double>(adapter.rank);
}

// The factors' names, for a matrix named "....weight": "....lora_A.weight", "....lora_B.weight".
struct FactorNames {
  std::string a, b;
};
FactorNames factor_names(std::string_view matrix);
bool is_factor(const TensorSpec& tensor);

// A model's tensors in the order of the arenas. A matrix with factors is replaced by A and B, which
// belong to the same block.
struct AdaptedTensors {
  std::vector<TensorSpec> trained;
  std::vector<TensorSpec> frozen;
};
// Without an adapter all tensors are trained. An encoder's head always is, as in PEFT.
AdaptedTensors adapted_tensors(const ModelSpec& model, const AdapterSpec& adapter);

// Whether a run with an adapter starts from a model (train.init) of which it trains no tensor, so
// that the model can be read into the frozen tensors: they are the same, in the same order.
bool freezes_whole_base(const config::Recipe& recipe);

// How the initial values of a factor are drawn: uniform in [-bound, bound), or normal(0,
// deviation). Where W exists, A has the bound 1 / sqrt(in) of PEFT (Kaiming's uniform distribution
// with a = sqrt 5) and B is zero. Where it does not, both have the deviation that gives s B A the
// architecture's initial deviation.
struct InitialFactor {
  double bound = 0;
  double deviation = 0;
};
InitialFactor initial_factor(const ModelSpec& model, const AdapterSpec& adapter,
                             const TensorSpec& factor);

// Throws UsageError that names the field if a rank does not fit its matrix, a pattern matches
// nothing, or the adapter contradicts the rest of the recipe. model.vocab need not be known yet.
void check_adapter(const config::Recipe& recipe);

}  // namespace thinwire::method
