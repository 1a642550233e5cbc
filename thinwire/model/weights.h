// Where the weights of a model are. Graphs and operations name a weight by one offset; those of
// frozen tensors begin at tensor::kFrozenOffset and refer to an arena of their own
// (tensor::Layout::joined), which several workers may share.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "thinwire/base/half.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

constexpr bool is_trained(int64_t offset) { return offset < tensor::kFrozenOffset; }

// The beginnings of both arenas, or of their copies; or of frozen tensors that are encoded, which
// products in bf16 take, the arena. frozen is null if all tensors are trained.
template <typename T>
struct Weights {
  const T* trained = nullptr;
  const T* frozen = nullptr;
  const tensor::PackedTensors* packed = nullptr;

  // The values of a tensor that is not encoded.
  const T* at(int64_t offset) const {
    if (is_trained(offset)) return trained + offset;
    if constexpr (std::is_same_v<T, Bf16>) {
      if (packed != nullptr) return packed->bf16_at(offset - tensor::kFrozenOffset);
    }
    return frozen + (offset - tensor::kFrozenOffset);
  }
  // The encoded matrices of which the first begins at `offset`, with so many rows together; empty
  // for a tensor that is not encoded (PackedTensors::matrices_at).
  std::span<const tensor::EncodedMatrix> packed_at(int64_t offset, int64_t rows) const {
    if (packed == nullptr || is_trained(offset)) return {};
    return packed->matrices_at(offset - tensor::kFrozenOffset, rows);
  }
};

}  // namespace thinwire::model
