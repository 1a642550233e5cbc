// UTF-8 validation for text that arrives in pieces. Valid means what RFC 3629 allows: no overlong
// forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire::data {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kValid,      // one character
  kInvalid,    // bytes that begin no character (the longest piece that Unicode replaces as one)
  kIncomplete  // the text ends inside a character that may still become valid
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kValid;
  size_t bytes = 0;
};

// What is at the beginning of a nonempty text.
Utf8Step utf8_step(std::string_view text);

// Length of the longest prefix that is valid.
size_t valid_utf8_prefix(std::string_view text);

// Appends `text` to `out` with each invalid piece replaced by U+FFFD, adds their number to
// `replaced`, and returns how many bytes at the end were left out as an incomplete character.
size_t append_repaired(std::string_view text, std::string& out, uint64_t& replaced);

}  // namespace thinwire::data
