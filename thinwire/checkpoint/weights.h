// Parameters in safetensors files: one file, or for reading the shards of a Hugging Face folder.
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

// The file each tensor lies in; the readers outlive the map.
using TensorFiles = std::map<std::string, const tensor::SafetensorsReader*, std::less<>>;

TensorFiles tensors_of(const tensor::SafetensorsReader& file);

// Throws Error that names `origin` and every tensor that is missing, has another shape, or belongs
// to no such model. Needs no memory for the model, so that it can come first.
void check_weights(const fs::path& origin, const TensorFiles& files,
                   std::span<const TensorSpec> specs);

// Called before each tensor, and at the end, with how many of all are done; what it throws ends the
// work.
using TensorProgress = std::function<void(size_t done, size_t all)>;

// Fills every tensor of the arena (from fp32, fp16 or bf16), after check_weights.
void read_weights(const TensorFiles& files, tensor::Arena& params,
                  const TensorProgress& progress = {});

struct FileStamp {
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

// Writes every tensor of the arena as kF32 or kBf16.
FileStamp write_weights(const fs::path& path, const tensor::Arena& params, DType dtype,
                        const TensorProgress& progress = {});

}  // namespace thinwire::checkpoint
