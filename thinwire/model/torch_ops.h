// The operations with LibTorch on one of its devices: matrix products and attention are ATen's, the
// passes between them are those of tensor/kernels/portable_kernels.h. The parameters and gradients
// are the device's copies of their arenas (Arena::mirror_on). The device is an argument and nothing
// else depends on it, so what holds on the CPU holds on a GPU up to the rounding of ATen's products
// and attention.
//
// Numerics: fp32 products are fp32 throughout; with bf16 the operands and results of the products,
// including logits and gradients of matrices, are rounded before they are added to fp32 gradients.
// Results repeat bit for bit: LibTorch is asked for deterministic algorithms.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/model/decoding.h"
#include "thinwire/model/ops.h"

namespace thinwire::model {

// Rows of logits that exist at one time.
inline constexpr int64_t kHeadChunk = 2048;

// Whether this program was built with LibTorch.
bool has_torch_ops();

// Needs parts.placement. Throws Error without LibTorch and when the device lacks memory.
std::unique_ptr<Ops> make_torch_ops(const ModelParts& parts, int64_t head_chunk = kHeadChunk);

// Decoding there, likewise.
std::unique_ptr<Decoding> make_torch_decoding(const DecoderParts& parts);
// What it allocates on the device.
std::vector<MemoryPart> torch_decoding_memory(const DecoderParts& parts);

}  // namespace thinwire::model
