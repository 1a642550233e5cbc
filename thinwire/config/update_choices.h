// When weights are updated, which norm gradients are clipped by, and in which coordinates gradients
// are formed (recipe fields train.update, optim.clip_by and optim.gradients).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire::config {

// All weights once the step's gradients are complete, or each tensor during the backward pass.
enum class UpdateTime : uint8_t { kStep, kLayer };
inline constexpr std::string_view kUpdateTimeNames[] = {"step", "layer"};
constexpr std::span<const std::string_view> names_of(UpdateTime) { return kUpdateTimeNames; }

// The norm of the whole gradient in this step, that in the previous step, or each tensor's own.
enum class ClipBy : uint8_t { kStep, kPrevious, kTensor };
inline constexpr std::string_view kClipByNames[] = {"step", "previous", "tensor"};
constexpr std::span<const std::string_view> names_of(ClipBy) { return kClipByNames; }

// How the gradients of matrices that the optimizer projects are formed: whole, or projected from
// the start.
enum class GradientCoordinates : uint8_t { kWhole, kProjected };
inline constexpr std::string_view kGradientCoordinatesNames[] = {"whole", "projected"};
constexpr std::span<const std::string_view> names_of(GradientCoordinates) {
  return kGradientCoordinatesNames;
}

}  // namespace thinwire::config
