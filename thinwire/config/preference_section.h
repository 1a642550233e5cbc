// The table [preference] of a recipe: how a model learns which of two answers is preferred.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// The loss of a pair of answers: DPO's (Rafailov et al. 2023, arXiv 2305.18290) or IPO's (Azar et
// al. 2023, arXiv 2310.12036).
enum class PreferenceLoss : uint8_t { kSigmoid, kIpo };
inline constexpr std::string_view kPreferenceLossNames[] = {"sigmoid", "ipo"};
constexpr std::span<const std::string_view> names_of(PreferenceLoss) {
  return kPreferenceLossNames;
}

struct PreferenceSection final : SectionOf<PreferenceSection> {
  double beta = 0.1;
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double label_smoothing = 0;
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
