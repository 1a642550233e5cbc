#include "thinwire/train/gradients.h"

#include <algorithm>

namespace thinwire::train {

double accumulate_gradients(model::Model& model, std::span<const int32_t> tokens, int64_t sequence,
                            int64_t max_rows, tensor::Arena& gradients,
                            const std::function<void(int layer)>& ready) {
  const int64_t width = sequence + 1;
  const int64_t rows = static_cast<int64_t>(tokens.size()) / width;
  const auto scale = static_cast<float>(1.0 / static_cast<double>(rows * sequence));
  if (rows == 0) gradients.clear();
  double loss = 0;
  for (int64_t first = 0; first < rows; first += max_rows) {
    const int64_t count = std::min(max_rows, rows - first);
    const auto part =
        tokens.subspan(static_cast<size_t>(first * width), static_cast<size_t>(count * width));
    const bool last = first + count == rows;
    loss += model.loss_and_gradients(
        part, count, scale, gradients, last ? ready : std::function<void(int layer)>(),
        first == 0 ? model::Gradients::kReplace : model::Gradients::kAdd);
  }
  return loss;
}

}  // namespace thinwire::train
