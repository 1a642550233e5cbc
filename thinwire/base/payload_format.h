// Constants that determine the size of payloads and of the sparse messages in them
// (docs/formats.md). codec/ writes and reads these, method/ predicts their bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace thinwire {

inline constexpr size_t kPayloadHeaderBytes = 40;
inline constexpr int64_t kValueFormatBytes = 1;   // number format of the values
inline constexpr int64_t kScaleBytes = 2;         // bf16
inline constexpr int64_t kSegmentEntryBytes = 4;  // in the table: bytes, Rice parameter, flag
inline constexpr int kMaxRiceParameter = 15;

// Number of tiles of a tensor that share a segment: as many as together send at most 4096 slots,
// and at least 1.
constexpr int64_t segment_tiles(int64_t kept_per_tile) {
  return std::max<int64_t>(4096 / kept_per_tile, 1);
}

}  // namespace thinwire
