// Groups of tensors whose gradients a backward pass completes together, in order of completion:
// head and final norm, then the blocks from last to first, then the embedding. A block's group has
// the block's number. The embedding is numbered below the first block, the head and final norm
// above the last. The embedding's gradient is complete last even if it is also the head.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"

namespace thinwire {

inline constexpr int kEmbeddingGroup = -1;

// The group number of a tensor in a model of `layers` blocks.
int gradient_group(const TensorSpec& tensor, int layers);

// The indices of each group's tensors in the model's list, ascending. Groups are in the order
// above; a group without tensors is omitted.
struct GradientGroup {
  int number = 0;
  std::vector<size_t> tensors;
};
std::vector<GradientGroup> gradient_groups(std::span<const TensorSpec> tensors);

}  // namespace thinwire
