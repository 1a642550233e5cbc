// The characters by which byte-level vocabularies write bytes (GPT-2): a printable byte of Latin-1
// is its own character, the others follow from U+0100 on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire::data {

// UTF-8 of the character of a byte.
std::string_view byte_character(uint8_t byte);

std::string to_byte_characters(std::string_view bytes);

// The bytes back; a text with any other character stays as it is.
std::string from_byte_characters(std::string_view text);

}  // namespace thinwire::data
