// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected), as used by TFRecord files and by iSCSI
// (RFC 3720, appendix B.4, whose vectors the test checks).
#pragma once

#include <cstdint>
#include <span>

namespace thinwire::events {

uint32_t crc32c(std::span<const uint8_t> bytes);

// TFRecord's masking, so that a CRC stored among the data it covers stays meaningful.
inline uint32_t masked_crc32c(std::span<const uint8_t> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace thinwire::events
