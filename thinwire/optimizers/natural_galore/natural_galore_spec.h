// Facts of Natural GaLore (Das 2024): GaLore whose projected gradients are multiplied by the
// inverse of an empirical Fisher matrix built from the last few of them.
#pragma once

#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// What happens to the history of projected gradients when the basis is renewed.
enum class History : uint8_t { kRotate, kClear, kKeep };
inline constexpr std::string_view kHistoryNames[] = {"rotate", "clear", "keep"};
constexpr std::span<const std::string_view> names_of(History) { return kHistoryNames; }

// How damping is added to the Fisher matrix: as it is, or times the mean square norm of the
// gradients in the history.
enum class Damping : uint8_t { kAbsolute, kRelative };
inline constexpr std::string_view kDampingNames[] = {"absolute", "relative"};
constexpr std::span<const std::string_view> names_of(Damping) { return kDampingNames; }

// The table [natural_galore].
struct NaturalGaloreOptions final : OptimizerSectionOf<NaturalGaloreOptions> {
  LowRankFields low_rank;
  double scale = 0.25;  // alpha
  Moments moments = Moments::kKeep;
  Sides sides = Sides::kOne;
  int64_t history = 20;  // s
  History at_refresh = History::kRotate;
  double damping = 1e-3;  // lambda
  Damping damping_is = Damping::kAbsolute;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kNaturalGalore;

}  // namespace thinwire::method
