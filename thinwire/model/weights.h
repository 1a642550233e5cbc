// Where the weights of a model are. Graphs and operations name a weight by one offset; those of
// frozen tensors begin at tensor::kFrozenOffset and refer to an arena of their own
// (tensor::Layout::joined), which several workers may share.
#pragma once

#include <cstdint>

#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

constexpr bool is_trained(int64_t offset) { return offset < tensor::kFrozenOffset; }

// The beginnings of both arenas, or of their copies. frozen is null if all tensors are trained.
template <typename T>
struct Weights {
  const T* trained = nullptr;
  const T* frozen = nullptr;

  const T* at(int64_t offset) const {
    return is_trained(offset) ? trained + offset : frozen + (offset - tensor::kFrozenOffset);
  }
};

}  // namespace thinwire::model
