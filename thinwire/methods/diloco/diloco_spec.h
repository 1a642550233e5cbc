// DiLoCo (Douillard et al. 2023, arXiv 2311.08105): workers train their own weights and, every
// sync_every steps, an outer optimizer steps along their mean pseudo-gradient. Local SGD (Stich
// 2019, arXiv 1805.09767) and Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512) are the
// same algorithm with other defaults: presets, each a method with a table of its own. Here are the
// recipe fields, the fragments into which a model is cut, the bytes sent and the state kept; the
// code is in diloco.cpp, the equations are in thinwire/methods/diloco/diloco.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/fields.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

struct Method;
struct StateBytes;

enum class OuterOptimizer : uint8_t { kNesterov, kMomentum, kSgd, kAverage };
inline constexpr std::string_view kOuterOptimizerNames[] = {"nesterov", "momentum", "sgd",
                                                            "average"};
constexpr std::span<const std::string_view> names_of(OuterOptimizer) {
  return kOuterOptimizerNames;
}

// What workers do while sums are in flight (thinwire/methods/diloco/diloco.md).
enum class Overlap : uint8_t { kNone, kInner, kDelayed, kEager };
inline constexpr std::string_view kOverlapNames[] = {"none", "inner", "delayed", "eager"};
constexpr std::span<const std::string_view> names_of(Overlap) { return kOverlapNames; }

// Where what a pseudo-gradient loses in its number format waits for the next one.
enum class ErrorPlace : uint8_t { kBuffer, kWeights };
inline constexpr std::string_view kErrorPlaceNames[] = {"buffer", "weights"};
constexpr std::span<const std::string_view> names_of(ErrorPlace) { return kErrorPlaceNames; }

// The number format of sums: that of contributions, in which one bit holds none, or one of its own.
enum class SumWire : uint8_t { kSame, kF32, kBf16, kFp8, kFp4 };
inline constexpr std::string_view kSumWireNames[] = {"same", "fp32", "bf16", "fp8", "fp4"};
constexpr std::span<const std::string_view> names_of(SumWire) { return kSumWireNames; }

// Into which fragments a model is cut. Neither: it is one fragment.
struct FragmentRule {
  int64_t layers = 0;  // of a fragment
  int64_t slices = 0;  // fragments, each of them an equal part of every tensor; takes precedence
};

// The table of a preset, with DiLoCo's own defaults.
struct DilocoOptions final : config::SectionOf<DilocoOptions> {
  int64_t sync_every = 100;     // H
  int64_t fragment_layers = 0;  // 0: the model is one fragment, and the field does not exist
  int64_t slices = 0;           // likewise; 0: fragments are layers
  OuterOptimizer outer = OuterOptimizer::kNesterov;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;  // mu
  WireType wire = WireType::kBf16;
  SumWire sum_wire = SumWire::kSame;
  bool error_feedback = false;
  ErrorPlace error_in = ErrorPlace::kBuffer;
  Overlap overlap = Overlap::kNone;
  int64_t overlap_steps = 1;  // tau
  double mix = 0.5;           // alpha
  int64_t depth = 1;          // d
  int64_t overlap_after = 0;  // outer steps
  void describe(config::Fields& fields) override;

  bool has_momentum() const {
    return outer == OuterOptimizer::kNesterov || outer == OuterOptimizer::kMomentum;
  }
  bool eager() const { return overlap == Overlap::kEager; }
  // Whether a worker's weights keep what the number format lost of their progress.
  bool keeps_error_in_weights() const { return error_feedback && error_in == ErrorPlace::kWeights; }
  // Whether contributions are gathered and the mean is formed by everyone, so that it is not
  // encoded. One bit could not hold a sum, and what a sum loses nobody's weights keep.
  bool gathers() const {
    return sum_wire == SumWire::kSame && (!holds_sums(wire) || keeps_error_in_weights());
  }
  // Of contributions and sums, unless it gathers.
  SumFormats formats() const;
  FragmentRule fragments() const { return {fragment_layers, slices}; }
  // Whether the sum of a fragment's `number`-th send, from 1, may be in flight while workers train.
  bool overlaps(int64_t number) const {
    return overlap != Overlap::kNone && number > overlap_after;
  }
  // Largest number of a fragment's sums in flight between two of its sends.
  int64_t in_flight() const;
  // Number of buffers of the model's size for pseudo-gradients; 0 if none stay in flight.
  int64_t buffers() const;
  // Whether pseudo-gradients pass through a buffer within a step although none stays in flight.
  // Otherwise they overwrite the worker's own weights, which the step replaces with the shared ones
  // anyway. That is not possible where own and shared weights are mixed, where the own ones keep an
  // error, or where the tensors of a fragment are not contiguous.
  bool passes_buffer(int64_t fragments) const {
    return buffers() == 0 &&
           (fragments > 1 || overlap == Overlap::kInner || keeps_error_in_weights());
  }
};

// Fragments of a model of `layers` blocks: 1, the slices, or ceil(layers / layers of a fragment).
int64_t fragment_count(int64_t layers, const FragmentRule& rule);

// The fragment of each tensor. Block l is in fragment l mod P, the embedding in the first one, the
// final norm and the head in the last.
std::vector<int64_t> fragments_of(std::span<const TensorSpec> tensors, int64_t fragment_layers);

// Elements of a fragment's buffer: its parts of the tensors, each padded as in the arena. Throws
// UsageError if there are more slices than lines of 16 values in the largest tensor.
int64_t fragment_elements(std::span<const TensorSpec> tensors, const FragmentRule& rule,
                          int64_t fragment);

// Where a slice of a tensor begins, in elements of the tensor; `padded`: the tensor's elements in
// an arena, whole lines. Slice s ends where s + 1 begins.
int64_t slice_begin(int64_t padded, int64_t slice, int64_t slices);

// Throws UsageError if the options contradict each other or the recipe; `table` is their table's
// name.
void check_diloco(std::string_view table, const DilocoOptions& options,
                  const config::Recipe& recipe);
StateBytes diloco_state(const DilocoOptions& options, const config::Recipe& recipe,
                        std::span<const TensorSpec> tensors);

}  // namespace thinwire::method
