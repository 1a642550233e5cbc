// Groups of tensors whose gradients a backward pass completes together, in order of completion:
// head and final norm, then the blocks from last to first, then the embedding. A block's group has
// the block's number. The embedding is numbered below the first block, the head and final norm
// above the last. The embedding's gradient is complete last even if it is also the head.
#pragma once

#include <cstddef>
#include <cstdint>
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

// A part of an arena of the tensors (base/block_sizes.h), in elements, the gaps after them
// included: neighbouring tensors of one group.
struct GroupRange {
  int group = 0;  // its number
  int64_t offset = 0;
  int64_t count = 0;
};
// Groups in their order, the ranges of each ascending; together they are the arena.
std::vector<GroupRange> group_ranges(std::span<const TensorSpec> tensors);

}  // namespace thinwire
