// Base64 with the letters of URLs (RFC 4648, section 5), without padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace thinwire::transport {

std::string encode_base64url(std::span<const uint8_t> bytes);

}  // namespace thinwire::transport
