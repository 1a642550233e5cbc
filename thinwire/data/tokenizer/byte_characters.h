// The characters that represent bytes in byte-level vocabularies (GPT-2): a byte that is printable
// in Latin-1 is its own character; the others are numbered in order from U+0100.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire::data {

// The character for a byte, in UTF-8.
std::string_view byte_character(uint8_t byte);

std::string to_byte_characters(std::string_view bytes);

// The inverse. A text that contains any other character is returned unchanged.
std::string from_byte_characters(std::string_view text);

}  // namespace thinwire::data
