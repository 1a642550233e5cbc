// The table [schedule] of a recipe: how the learning rate changes over the run.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// What the learning rate does after the warmup.
enum class ScheduleKind : uint8_t { kCosine, kLinear, kConstant, kWsd };
inline constexpr std::string_view kScheduleKindNames[] = {"cosine", "linear", "constant", "wsd"};
constexpr std::span<const std::string_view> names_of(ScheduleKind) { return kScheduleKindNames; }

struct ScheduleSection final : SectionOf<ScheduleSection> {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t warmup = 0;        // steps of linear warmup
  double final_ratio = 0.1;  // last learning rate over peak
  int64_t decay = 0;         // wsd: steps of the final decay
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
