// The weights of a model that was trained with an adapter (method/adapters/adapter.h): its trained
// and frozen tensors, and both together.
#pragma once

#include "thinwire/base/threads.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::checkpoint {

// The name of the frozen tensors in the consensus state of runs that merge: there they change, so
// checkpoints hold them.
inline constexpr const char* kMergedBase = "relora.base";

// Copies the tensors that have the same names in both. `from` is in fp32; in bf16, `to` rounds to
// nearest.
void copy_common(const tensor::Arena& from, tensor::Arena& to);

// Adds s B A to every matrix of `weights` that has factors among the trained tensors; the rest is
// left as it is. The same bits everywhere (tensor/products/factors.h).
void add_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                 tensor::Arena& weights, ThreadPool& threads);

}  // namespace thinwire::checkpoint
