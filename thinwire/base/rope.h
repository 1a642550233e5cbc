// How rotary position embeddings are extended beyond the positions they were trained on: the names
// and factors of Hugging Face's rope_scaling, from which tensor/kernels/attention.h computes the
// wavelengths.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire {

enum class RopeScaling : uint8_t { kNone, kLinear, kDynamic, kLlama3, kYarn };

inline std::span<const std::string_view> names_of(RopeScaling) {
  static constexpr std::array<std::string_view, 5> kNames = {"none", "linear", "dynamic", "llama3",
                                                             "yarn"};
  return kNames;
}

// The largest `factor` and `attention_factor`: no model has more positions, and scores that are
// larger by the square of this still fit into a float.
inline constexpr double kMaxRopeFactor = 1 << 24;

// Each scaling reads `scaling`, `factor` and those fields that are marked with its name.
struct RopeSpec {
  double theta = 10000;  // base of the wavelengths
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;            // how many times longer contexts become, >= 1
  int64_t context = 0;          // positions before scaling (dynamic, llama3, yarn)
  double low_frequency = 1;     // wavelengths above context / this are scaled fully (llama3)
  double high_frequency = 4;    // wavelengths below context / this are not scaled (llama3)
  double beta_fast = 32;        // pairs that rotate more often than this in a context: not scaled,
  double beta_slow = 1;         // less often than this: scaled fully (yarn)
  bool truncate = true;         // round the bounds that follow from both to whole pairs (yarn)
  double attention_factor = 0;  // for queries and for keys; 0: 0.1 ln(factor) + 1 (yarn)

  bool operator==(const RopeSpec&) const = default;
};

}  // namespace thinwire
