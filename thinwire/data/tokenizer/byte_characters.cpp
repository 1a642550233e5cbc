#include <array>
#include <unordered_map>

#include "thinwire/data/tokenizer/stages.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Table {
  std::array<std::string, 256> characters;
  std::unordered_map<std::string_view, char> bytes;

  Table() {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned code = is_printable(byte) ? byte : next++;
      std::string& character = characters[byte];
      if (code < 0x80) {
        character = static_cast<char>(code);
      } else {
        character = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      }
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes.emplace(characters[byte], static_cast<char>(byte));
    }
  }
};

const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

std::string_view byte_character(uint8_t byte) { return table().characters[byte]; }

std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += byte_character(static_cast<uint8_t>(byte));
  return text;
}

std::string from_byte_characters(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_step(text.substr(at)).bytes;
    const auto found = table().bytes.find(text.substr(at, length));
    if (found == table().bytes.end()) return std::string(text);
    bytes += found->second;
    at += length;
  }
  return bytes;
}

}  // namespace thinwire::data
