// When weights are updated and which norm gradients are clipped by (recipe fields train.update and
// optim.clip_by).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire::config {

// All weights once the step's gradients are complete, or each tensor during the backward pass.
enum class UpdateTime : uint8_t { kStep, kLayer };
inline constexpr std::string_view kUpdateTimeNames[] = {"step", "layer"};
constexpr std::span<const std::string_view> names_of(UpdateTime) { return kUpdateTimeNames; }

// The norm of the whole gradient in this step, the same in the previous step, or each tensor's own.
enum class ClipBy : uint8_t { kStep, kPrevious, kTensor };
inline constexpr std::string_view kClipByNames[] = {"step", "previous", "tensor"};
constexpr std::span<const std::string_view> names_of(ClipBy) { return kClipByNames; }

}  // namespace thinwire::config
