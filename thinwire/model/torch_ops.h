// The operations by LibTorch on one of its devices: matrix products and attention by ATen, the
// passes between them by tensor/kernels/portable_kernels.h. The parameters and gradients are the
// device's side of their arenas (Arena::mirror_on). The device is an argument and nothing else
// depends on it, so what holds on the processor holds on a GPU up to the rounding of ATen's
// products and attention.
//
// Numbers: fp32 products are fp32 throughout; bf16 rounds operands and results of the products,
// logits and gradients of matrices among them, before they are added to fp32 gradients. Repeats bit
// for bit: LibTorch is asked for deterministic algorithms.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/model/ops.h"

namespace thinwire::model {

// Rows of logits that exist at a time.
inline constexpr int64_t kHeadChunk = 2048;

// With parts.placement. Throws Error without LibTorch and when the device's memory does not
// suffice.
std::unique_ptr<Ops> make_torch_ops(const ModelParts& parts, int64_t head_chunk = kHeadChunk);

}  // namespace thinwire::model
