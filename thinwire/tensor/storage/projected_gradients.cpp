#include "thinwire/tensor/storage/projected_gradients.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace thinwire::tensor {

ProjectedGradients::Whole::Whole(int64_t count)
    : layout({{"gradient", {count}, TensorRole::kMatrix}}), values(layout) {}

ProjectedGradients::ProjectedGradients(const Layout& layout, Arena& gradients, Handlers handlers)
    : layout_(layout), gradients_(gradients), handlers_(std::move(handlers)) {
  assert(layout.size() == gradients.layout().size());
}

void ProjectedGradients::begin(Pass pass, const DevicePlace* device) {
  pass_ = pass;
  device_ = device;
  if (device != nullptr) gradients_.mirror_on(*device);
  if (!pass.first) return;
  opened_.assign(layout_.size(), false);
  forming_.clear();
  for (Whole& memory : memory_) memory.used = false;
}

float* ProjectedGradients::values_of(Arena& arena, int64_t offset) {
  return (device_ == nullptr ? arena.all().data() : arena.device_values()) + offset;
}

ProjectedGradients::Whole& ProjectedGradients::unused_whole(int64_t count) {
  const auto fits = [&](const Whole& one) { return !one.used && one.layout.total() >= count; };
  auto found = std::ranges::find_if(memory_, fits);
  if (found == memory_.end()) {
    // Memory that is too small is replaced.
    std::erase_if(memory_, [](const Whole& one) { return !one.used; });
    found = memory_.emplace(memory_.end(), count);
  }
  if (device_ != nullptr) found->values.mirror_on(*device_);
  found->used = true;
  return *found;
}

OpenGradient ProjectedGradients::open(const GradientRange& range) {
  const size_t tensor = tensor_at(layout_, range.offset);
  if (const auto whole = forming_.find(tensor); whole != forming_.end()) {
    return {values_of(whole->second->values, 0), 1.0f};
  }
  const GradientForm form = handlers_.form(tensor);
  // A matrix whose first bases come from an earlier pass of the step keeps them throughout it.
  const Projection projection = opened_[tensor] ? form.bases : form.in_pass();
  if (form.projected && !projection) {
    Whole& whole = unused_whole(range.count);
    forming_.emplace(tensor, &whole);
    return {values_of(whole.values, 0), 0.0f};
  }
  const float keep = opened_[tensor] ? 1.0f : 0.0f;
  opened_[tensor] = true;
  return {values_of(gradients_, gradients_.layout().offset(tensor)), keep, projection};
}

void ProjectedGradients::complete(const GradientRange& range) {
  const size_t tensor = tensor_at(layout_, range.offset);
  const auto whole = forming_.find(tensor);
  if (whole == forming_.end()) return;
  const bool waits = !pass_.last && handlers_.form(tensor).bases;
  if (waits) return;
  handlers_.project(tensor, std::as_const(whole->second->values).range(0, range.count),
                    gradients_.tensor(tensor));
  opened_[tensor] = true;
  whole->second->used = false;
  forming_.erase(whole);
}

size_t ProjectedGradients::whole_bytes() const {
  size_t bytes = 0;
  for (const Whole& one : memory_) {
    bytes += sizeof(float) * static_cast<size_t>(one.layout.total());
  }
  return bytes;
}

void ProjectedGradients::end_group(int group) {
  if (pass_.last && handlers_.end_group) handlers_.end_group(group);
}

}  // namespace thinwire::tensor
