// What a checkpoint of an adapter says about the model that its factors belong to, since it does
// not hold that model: a small file beside the weights, which are the run's trained tensors.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::checkpoint {

// In checkpoints of such runs, and in exported PEFT folders.
inline constexpr const char* kAdapterBaseFile = "adapter_base.json";

struct AdapterBase {
  uint64_t digest = 0;  // of the base's weights (digest_weights)
  std::string model;    // the folder it was loaded from, as written in the recipe (train.init)
};

// Digest of all tensors in fp32, in the order of their layout; equal for equal weights, whatever
// the format of the file they came from. The arena must have no newer copy on a device.
uint64_t digest_weights(const tensor::Arena& weights);

std::string print_adapter_base(const AdapterBase& base);
// Throws Error naming the file if it is missing or damaged.
AdapterBase read_adapter_base(const fs::path& folder);

// Throws Error if the model in `found`, with this digest, is not the one that the factors in
// `folder` were trained on.
void check_adapter_base(const fs::path& folder, const AdapterBase& expected, const fs::path& found,
                        uint64_t digest);

// The weights of a model that was trained with an adapter (method/adapters/adapter.h): its trained
// and frozen tensors, and both together.

// The name of the frozen tensors in the consensus state of runs that merge: there they change, so
// checkpoints hold them.
inline constexpr const char* kMergedBase = "relora.base";

// Copies the tensors that have the same names in both. `from` is in fp32; in bf16, `to` rounds to
// nearest.
void copy_common(const tensor::Arena& from, tensor::Arena& to);

// Adds s B A to every matrix of `weights` that has factors among the trained tensors; the rest is
// left as it is. The same bits everywhere (tensor/products/gemm.h).
void add_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                 tensor::Arena& weights, ThreadPool& threads);

}  // namespace thinwire::checkpoint
