// Base64 (RFC 4648, section 4) with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thinwire {

std::string encode_base64(std::string_view bytes);
// Nothing if the text is not base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace thinwire
