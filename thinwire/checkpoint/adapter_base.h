// What a checkpoint of an adapter says about the model that its factors belong to, since it does
// not hold that model: a small file beside the weights, which are the run's trained tensors.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/file.h"
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

}  // namespace thinwire::checkpoint
