#include "thinwire/tensor/storage/gradient_sink.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/tensor_view.h"

namespace thinwire::tensor {
namespace {

int64_t projected_count(const TensorSpec& matrix, const Projection& projection) {
  const int64_t inputs = matrix.shape.back();
  return projection.rows(matrix.count() / inputs) * projection.columns(inputs);
}

}  // namespace

size_t tensor_at(const Layout& layout, int64_t offset) {
  size_t tensor = 0;
  while (tensor + 1 < layout.size() && layout.offset(tensor + 1) <= offset) ++tensor;
  return tensor;
}

WholeGradients::WholeGradients(Arena& gradients, EndGroup end_group)
    : gradients_(gradients), end_group_(std::move(end_group)) {}

void WholeGradients::begin(Pass pass, const DevicePlace* device) {
  pass_ = pass;
  on_device_ = device != nullptr;
  opened_.clear();
  if (on_device_) {
    gradients_.mirror_on(*device);
    if (pass.first) gradients_.clear();
    return;
  }
  if (!pass.first) return;
  const Layout& layout = gradients_.layout();
  const std::span<float> all = gradients_.all();
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    const int64_t end = tensor + 1 < layout.size() ? layout.offset(tensor + 1) : layout.total();
    const int64_t gap = layout.offset(tensor) + layout.specs()[tensor].count();
    std::fill(all.begin() + gap, all.begin() + end, 0.0f);
  }
}

OpenGradient WholeGradients::open(const GradientRange& range) {
  float* const all = on_device_ ? gradients_.device_values() : gradients_.all().data();
  const bool adds = on_device_ || !pass_.first || !opened_.insert(range.offset).second;
  return {all + range.offset, adds ? 1.0f : 0.0f};
}

void WholeGradients::end_group(int group) {
  if (pass_.last && end_group_) end_group_(group);
}

StreamedGradients::Memory::Memory(int64_t count)
    : layout({{"gradient", {count}, TensorRole::kMatrix}}), values(layout) {}

StreamedGradients::StreamedGradients(const Layout& layout, const StreamSize& size,
                                     Handlers handlers)
    : layout_(layout),
      handlers_(std::move(handlers)),
      held_range_(size.held),
      product_(size.largest),
      held_(size.held.count) {}

void StreamedGradients::begin([[maybe_unused]] Pass pass, const DevicePlace* device) {
  assert(pass.first && pass.last);
  on_device_ = device != nullptr;
  for (Memory* memory : {&product_, &held_}) {
    memory->opened = false;
    if (on_device_) memory->values.mirror_on(*device);
  }
}

StreamedGradients::Memory& StreamedGradients::memory_of(const GradientRange& range) {
  const bool held = held_range_.count > 0 && range.offset == held_range_.offset;
  Memory& memory = held ? held_ : product_;
  assert(range.count <= memory.layout.total());
  return memory;
}

OpenGradient StreamedGradients::open(const GradientRange& range) {
  Memory& memory = memory_of(range);
  assert(!memory.opened || &memory == &held_);
  float* const values = on_device_ ? memory.values.device_values() : memory.values.all().data();
  projection_ = {};
  if (handlers_.form) projection_ = handlers_.form(tensor_at(layout_, range.offset)).in_pass();
  return {values, std::exchange(memory.opened, true) ? 1.0f : 0.0f, projection_};
}

void StreamedGradients::complete(const GradientRange& range) {
  Memory& memory = memory_of(range);
  memory.opened = false;
  if (!projection_) return take(range, std::as_const(memory.values).range(0, range.count));
  const size_t tensor = tensor_at(layout_, range.offset);
  const int64_t count = projected_count(layout_.specs()[tensor], projection_);
  handlers_.take(tensor, std::as_const(memory.values).range(0, count));
}

void StreamedGradients::take(const GradientRange& range, std::span<const float> values) {
  for (size_t tensor = tensor_at(layout_, range.offset); tensor < layout_.size(); ++tensor) {
    const int64_t first = layout_.offset(tensor) - range.offset;
    if (first >= range.count) break;
    const int64_t begin = std::max<int64_t>(first, 0);
    const int64_t end = std::min(first + layout_.specs()[tensor].count(), range.count);
    handlers_.take(tensor,
                   values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  }
}

size_t StreamedGradients::bytes() const {
  return sizeof(float) * static_cast<size_t>(product_.layout.total() + held_.layout.total());
}

}  // namespace thinwire::tensor
