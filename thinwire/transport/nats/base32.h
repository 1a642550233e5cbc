// Base32 as in RFC 4648, upper case, without padding.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/bytes.h"

namespace thinwire::transport {

std::string encode_base32(std::span<const uint8_t> bytes);
// Returns nothing for text that encode_base32 would not produce.
std::optional<Bytes> decode_base32(std::string_view text);

// CRC-16/XMODEM: polynomial 0x1021, initial value 0, most significant bit first.
uint16_t crc16(std::span<const uint8_t> bytes);

}  // namespace thinwire::transport
