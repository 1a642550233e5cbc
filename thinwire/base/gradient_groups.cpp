#include "thinwire/base/gradient_groups.h"

#include <algorithm>

namespace thinwire {

int gradient_group(const TensorSpec& tensor, int layers) {
  if (tensor.layer >= 0) return tensor.layer;
  return tensor.is_of_embedding() ? kEmbeddingGroup : layers;
}

std::vector<GradientGroup> gradient_groups(std::span<const TensorSpec> tensors) {
  int layers = 0;
  for (const TensorSpec& tensor : tensors) layers = std::max(layers, tensor.layer + 1);
  std::vector<GradientGroup> groups;
  for (int number = layers; number >= kEmbeddingGroup; --number) {
    GradientGroup group{number, {}};
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (gradient_group(tensors[i], layers) == number) group.tensors.push_back(i);
    }
    if (!group.tensors.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace thinwire
