#include "thinwire/train/gradients.h"

#include <algorithm>

namespace thinwire::train {

double accumulate_gradients(model::Model& model, std::span<const int32_t> tokens, int64_t sequence,
                            int64_t max_rows, tensor::GradientSink& sink) {
  const int64_t width = sequence + 1;
  const int64_t rows = static_cast<int64_t>(tokens.size()) / width;
  const auto scale = static_cast<float>(1.0 / static_cast<double>(rows * sequence));
  double loss = 0;
  for (int64_t first = 0; first < rows; first += max_rows) {
    const int64_t count = std::min(max_rows, rows - first);
    const auto part =
        tokens.subspan(static_cast<size_t>(first * width), static_cast<size_t>(count * width));
    loss += model.loss_and_gradients(part, count, scale, sink,
                                     {.first = first == 0, .last = first + count == rows});
  }
  return loss;
}

StepGradients::StepGradients(config::UpdateTime update, const tensor::Layout& layout)
    : update_(update),
      layout_(layout),
      none_({}),
      arena_(update == config::UpdateTime::kStep ? layout : none_) {}

double StepGradients::compute(const StepRows& rows, model::Model& model, sync::Strategy& strategy,
                              const Round& round) {
  strategy_ = &strategy;
  round_ = &round;
  const auto end_group = [this](int group) { strategy_->gradients_ready(*round_, group); };
  const auto accumulate = [&](tensor::GradientSink& sink) {
    return accumulate_gradients(model, rows.tokens, rows.sequence, rows.max_rows, sink);
  };
  if (update_ == config::UpdateTime::kStep) {
    tensor::WholeGradients whole(arena_, end_group);
    return accumulate(whole);
  }
  if (!streamed_) {
    const auto take = [this](size_t tensor, std::span<const float> gradient) {
      strategy_->take_gradient(*round_, tensor, gradient);
    };
    streamed_.emplace(layout_, model.stream_size(),
                      tensor::StreamedGradients::Handlers{take, end_group});
  }
  return accumulate(*streamed_);
}

}  // namespace thinwire::train
