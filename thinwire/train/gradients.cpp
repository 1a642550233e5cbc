#include "thinwire/train/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/train/pair_loss.h"
#include "thinwire/train/site.h"

namespace thinwire::train {
namespace {

using method::GradientStore;

// None if gradients are not kept as projections.
std::vector<TensorSpec> kept_tensors(const config::Recipe& recipe, const tensor::Layout& layout) {
  if (method::gradient_store(recipe) != GradientStore::kProjected) return {};
  return method::gradient_tensors(method::optimizer_options(recipe), layout.specs());
}

int64_t row_count(const StepRows& step) {
  return static_cast<int64_t>(step.tokens.size()) / (step.sequence + 1);
}

tensor::Arena make_arena(const tensor::Layout& layout, const ArenaMemory& memory) {
  return memory ? tensor::Arena(layout, memory(layout)) : tensor::Arena(layout);
}

}  // namespace

double counted_a_row(const data::Rows& rows, std::span<const RoundMember> members) {
  if (!rows.weighted()) return 0;
  int64_t counted = 0;
  uint64_t count = 0;
  for (const RoundMember& member : members) {
    for (uint64_t row = 0; row < member.rows.count; ++row) {
      counted += rows.counted(member.rows.first + row);
    }
    count += member.rows.count;
  }
  return static_cast<double>(counted) / static_cast<double>(count);
}

StepRows part_of(const StepRows& step, int64_t first, int64_t count) {
  const auto cut = [&](auto values, int64_t of_a_row) {
    if (values.empty()) return values;
    return values.subspan(static_cast<size_t>(first * of_a_row),
                          static_cast<size_t>(count * of_a_row));
  };
  StepRows part = step;
  part.tokens = cut(step.tokens, step.sequence + 1);
  part.marks = {cut(step.marks.weights, step.sequence), cut(step.marks.begins, step.sequence)};
  return part;
}

double accumulate_gradients(model::Model& model, const StepRows& step, tensor::GradientSink& sink) {
  const int64_t rows = row_count(step);
  const double a_row =
      step.marks.weights.empty() ? static_cast<double>(step.sequence) : step.counted_a_row;
  const double worker_rows = static_cast<double>(step.worker_rows > 0 ? step.worker_rows : rows);
  const auto scale = static_cast<float>(1.0 / (worker_rows * a_row));
  double loss = 0;
  for (int64_t first = 0; first < rows; first += step.max_rows) {
    const int64_t count = std::min(step.max_rows, rows - first);
    const StepRows part = part_of(step, first, count);
    const tensor::Pass pass = {.first = first == 0, .last = first + count == rows};
    loss += step.loss == nullptr
                ? model.loss_and_gradients(part.tokens, count, scale, sink, pass, part.marks)
                : model.loss_and_gradients(part.tokens, count, scale, sink, pass, part.marks,
                                           *step.loss);
  }
  return loss;
}

StepGradients::StepGradients(const config::Recipe& recipe, const tensor::Arena& params, Site* site,
                             ArenaMemory memory)
    : store_(method::gradient_store(recipe)),
      projected_(recipe.optim.gradients == config::GradientCoordinates::kProjected),
      slabs_(recipe.model.vocab_slabs),
      params_(params),
      site_(site),
      layout_(params.layout()),
      kept_(kept_tensors(recipe, layout_)),
      memory_(std::move(memory)),
      arena_(store_ == GradientStore::kWhole ? make_arena(layout_, memory_)
                                             : tensor::Arena(kept_)) {}

void StepGradients::end_group(int group) const {
  if (*completed_) (*completed_)(group);
  strategy_->gradients_ready(*round_, group);
}

tensor::StreamedGradients::Handlers StepGradients::streaming() const {
  tensor::StreamedGradients::Handlers handlers = {
      [this](size_t tensor, std::span<const float> gradient) {
        strategy_->take_gradient(*round_, tensor, gradient);
      },
      [this](int group) { end_group(group); }};
  if (projected_) {
    handlers.form = [this](size_t tensor) { return strategy_->gradient_form(*round_, tensor); };
  }
  return handlers;
}

tensor::ProjectedGradients::Handlers StepGradients::projecting() const {
  return {[this](size_t tensor) { return strategy_->gradient_form(*round_, tensor); },
          [this](size_t tensor, std::span<const float> whole, std::span<float> projected) {
            strategy_->project_gradient(*round_, tensor, whole, projected);
          },
          [this](int group) { end_group(group); }};
}

double StepGradients::compute(const StepRows& rows, model::Model& model, sync::Strategy& strategy,
                              const Round& round, const EndGroup& completed) {
  strategy_ = &strategy;
  round_ = &round;
  completed_ = &completed;
  const auto accumulate = [&](tensor::GradientSink& sink) {
    return accumulate_gradients(model, rows, sink);
  };
  switch (store_) {
    case GradientStore::kProjected:
      if (!projecting_) projecting_.emplace(layout_, arena_, projecting());
      return accumulate(*projecting_);
    case GradientStore::kStreamed:
      if (site_ != nullptr) return stream_with_site(rows, model);
      if (row_count(rows) > rows.max_rows) return compute_whole(rows, model);
      if (!streamed_) streamed_.emplace(layout_, stream_size(model), streaming());
      return accumulate(*streamed_);
    case GradientStore::kWhole:
      break;
  }
  if (site_ != nullptr) {
    const double loss = site_->gradients(model, params_, rows, arena_);
    for (const GradientGroup& group : gradient_groups(layout_.specs())) end_group(group.number);
    return loss;
  }
  tensor::WholeGradients whole(arena_, [this](int group) { end_group(group); });
  return accumulate(whole);
}

double StepGradients::compute_whole(const StepRows& rows, model::Model& model) const {
  if (projected_) {
    throw Error(fmt::format(
        "step {}: others are away, so {} rows of the step are this member's, more than the {} that "
        "go through the model in one pass, which train.update = layer with optim.gradients = "
        "projected needs",
        round_->step + 1, row_count(rows), rows.max_rows));
  }
  tensor::Arena gradients(layout_);
  const std::vector<GradientGroup> groups = gradient_groups(layout_.specs());
  tensor::WholeGradients whole(gradients, [&](int number) {
    take_group(gradients, *std::ranges::find(groups, number, &GradientGroup::number));
  });
  return accumulate_gradients(model, rows, whole);
}

double StepGradients::stream_with_site(const StepRows& rows, model::Model& model) {
  if (site_->streams(rows)) {
    if (!streamed_) {
      streamed_.emplace(layout_, stream_size(model), site_->summing(streaming()));
    }
    return site_->stream(model, params_, rows, *streamed_);
  }
  tensor::Arena gradients(layout_);
  const double loss = site_->gradients(model, params_, rows, gradients);
  for (const GradientGroup& group : gradient_groups(layout_.specs())) take_group(gradients, group);
  return loss;
}

void StepGradients::take_group(const tensor::Arena& gradients, const GradientGroup& group) const {
  for (const size_t tensor : group.tensors) {
    strategy_->take_gradient(*round_, tensor, gradients.tensor(tensor));
  }
  end_group(group.number);
}

tensor::Arena& StepGradients::whole() {
  if (store_ == GradientStore::kWhole) return arena_;
  if (!formed_) formed_.emplace(make_arena(layout_, memory_));
  return *formed_;
}

void StepGradients::hand_over(sync::Strategy& strategy, const Round& round,
                              const EndGroup& completed) {
  strategy_ = &strategy;
  round_ = &round;
  completed_ = &completed;
  for (const GradientGroup& group : gradient_groups(layout_.specs())) {
    if (formed_) {
      take_group(*formed_, group);
    } else {
      end_group(group.number);
    }
  }
}

size_t StepGradients::bytes() const {
  return sizeof(float) * static_cast<size_t>(arena_.layout().total()) +
         (formed_ ? formed_->bytes().size() : 0) + (streamed_ ? streamed_->bytes() : 0) +
         (projecting_ ? projecting_->whole_bytes() : 0);
}

tensor::StreamSize StepGradients::stream_size(const model::Model& model) const {
  tensor::StreamSize size = model.stream_size();
  if (!projected_) return size;
  // Tensors come one by one.
  size.largest = 0;
  for (size_t tensor = 0; tensor < layout_.size(); ++tensor) {
    if (size.held.count > 0 && layout_.offset(tensor) == size.held.offset) continue;
    size.largest = std::max(size.largest, method::formed_elements(layout_.specs()[tensor], slabs_));
  }
  return size;
}

}  // namespace thinwire::train
