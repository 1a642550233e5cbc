// Parameters in safetensors files: one file or, for reading only, the shards of a Hugging Face
// folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/tensor/files/safetensors.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::checkpoint {

// The file that holds each tensor; the readers must outlive the map.
using TensorFiles = std::map<std::string, const tensor::SafetensorsReader*, std::less<>>;

TensorFiles tensors_of(const tensor::SafetensorsReader& file);

// Throws Error naming `origin` and every tensor that is missing, has a different shape, or is not
// part of the model. Needs no memory for the model, so it can be called first.
void check_weights(const fs::path& origin, const TensorFiles& files,
                   std::span<const TensorSpec> specs);

// Called before each tensor, and at the end, with the number of tensors done and of all tensors; an
// exception that it throws ends the work.
using TensorProgress = std::function<void(size_t done, size_t all)>;

// Fills every tensor of the arena (from fp32, fp16 or bf16), after check_weights; tensors that no
// file has stay as they are. Returns the digest of what it read, in fp32 (digest_weights in
// adapter_base.h), also if the arena rounds it.
uint64_t read_weights(const TensorFiles& files, tensor::Arena& params,
                      const TensorProgress& progress = {});

struct FileStamp {
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

// Writes every tensor of the arena as kF32, kBf16 or kF16.
FileStamp write_weights(const fs::path& path, const tensor::Arena& params, DType dtype,
                        const TensorProgress& progress = {});

}  // namespace thinwire::checkpoint
