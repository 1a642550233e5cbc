// How records (data.records) become rows (recipe field train.long_records).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire::config {

// A record of more tokens than a row: an error, its first tokens only, or left out.
enum class LongRecords : uint8_t { kError, kTruncate, kSkip };
inline constexpr std::string_view kLongRecordsNames[] = {"error", "truncate", "skip"};
constexpr std::span<const std::string_view> names_of(LongRecords) { return kLongRecordsNames; }

}  // namespace thinwire::config
