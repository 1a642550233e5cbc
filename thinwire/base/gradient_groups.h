// The groups of tensors whose gradients a backward pass completes together, in the order in which
// it completes them: head and final norm, the blocks from the last to the first, the embedding. A
// group has the number of its block; the embedding, whose gradient is complete last also where it
// is the head, comes below the first block, head and final norm above the last.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"

namespace thinwire {

inline constexpr int kEmbeddingGroup = -1;

// The group of a tensor of a model of `layers` blocks.
int gradient_group(const TensorSpec& tensor, int layers);

// Where each group's tensors are among a model's, ascending; groups in the order above. A model may
// lack any of them.
struct GradientGroup {
  int number = 0;
  std::vector<size_t> tensors;
};
std::vector<GradientGroup> gradient_groups(std::span<const TensorSpec> tensors);

}  // namespace thinwire
