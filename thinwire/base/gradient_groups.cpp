#include "thinwire/base/gradient_groups.h"

#include <algorithm>

#include "thinwire/base/block_sizes.h"

namespace thinwire {

int gradient_group(const TensorSpec& tensor, int layers) {
  if (tensor.layer >= 0) return tensor.layer;
  return tensor.is_of_embedding() ? kEmbeddingGroup : layers;
}

std::vector<GradientGroup> gradient_groups(std::span<const TensorSpec> tensors) {
  int layers = 0;
  for (const TensorSpec& tensor : tensors) layers = std::max(layers, tensor.layer + 1);
  std::vector<GradientGroup> groups;
  for (int number = layers; number >= kEmbeddingGroup; --number) groups.push_back({number, {}});
  for (size_t i = 0; i < tensors.size(); ++i) {
    groups[layers - gradient_group(tensors[i], layers)].tensors.push_back(i);
  }
  std::erase_if(groups, [](const GradientGroup& group) { return group.tensors.empty(); });
  return groups;
}

std::vector<GroupRange> group_ranges(std::span<const TensorSpec> tensors) {
  std::vector<int64_t> offsets = {0};
  for (const TensorSpec& tensor : tensors) {
    offsets.push_back(offsets.back() + padded_elements(tensor.count()));
  }
  std::vector<GroupRange> ranges;
  for (const GradientGroup& group : gradient_groups(tensors)) {
    bool joins = false;  // whether the tensor follows the group's last range
    for (const size_t tensor : group.tensors) {
      const int64_t count = offsets[tensor + 1] - offsets[tensor];
      joins = joins && ranges.back().offset + ranges.back().count == offsets[tensor];
      if (!joins) ranges.push_back({group.number, offsets[tensor], 0});
      ranges.back().count += count;
      joins = true;
    }
  }
  return ranges;
}

}  // namespace thinwire
