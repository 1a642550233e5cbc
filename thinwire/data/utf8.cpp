#include "thinwire/data/utf8.h"

#include <cstring>

namespace thinwire::data {
namespace {

// The number of continuation bytes after a lead byte, and the range of the first of them (RFC 3629,
// section 4).
struct Lead {
  size_t more = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0};
}

size_t ascii_prefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word = 0; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {Utf8Kind::kValid, 1};
  const Lead lead = lead_of(first);
  if (lead.more == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i <= lead.more; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kValid, lead.more + 1};
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (true) {
    at += ascii_prefix(text.substr(at));
    if (at == text.size()) return at;
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::kValid) return at;
    at += step.bytes;
  }
}

size_t append_repaired(std::string_view text, std::string& out, uint64_t& replaced) {
  while (true) {
    const size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return 0;
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8Kind::kIncomplete) return text.size();
    out.append(kReplacementCharacter);
    ++replaced;
    text.remove_prefix(step.bytes);
  }
}

}  // namespace thinwire::data
