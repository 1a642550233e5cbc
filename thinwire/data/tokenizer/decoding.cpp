#include <charconv>

#include "thinwire/data/tokenizer/stages.h"

namespace thinwire::data {
namespace {

// The byte of "<0x41>"; -1 for other pieces.
int byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return -1;
  int byte = -1;
  const char* end = piece.data() + 5;
  const auto [at, error] = std::from_chars(piece.data() + 3, end, byte, 16);
  return error == std::errc() && at == end ? byte : -1;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

void Decoding::read(const JsonPart& part) {
  const std::string type = part.text_at("type");
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("decoders").items()) read(step);
  } else if (type == "ByteLevel") {
    byte_characters_ = true;
  } else if (type == "ByteFallback") {
    byte_fallback_ = true;
  } else if (type == "Replace") {
    const std::string literal = part.at("pattern").text_at("String");
    if (literal.empty()) part.refuse("replaces an empty text");
    replaced_.emplace_back(literal, part.text_at("content"));
  } else if (type == "Metaspace") {
    replaced_.emplace_back(part.text_or("replacement", "\xE2\x96\x81"), " ");
    const bool prefix = part.flag_or("add_prefix_space", true);
    leading_space_ = part.text_or("prepend_scheme", prefix ? "always" : "never") != "never";
  } else if (type == "Strip") {
    if (part.text_at("content") != " " || part.at("start").token() > 1 ||
        part.at("stop").token() != 0) {
      part.refuse("strips something other than one space from the beginning of a text");
    }
    leading_space_ = part.at("start").token() == 1;
  } else if (type != "Fuse") {
    part.refuse(
        "has the type \"{}\", which is not supported; supported decoders: Sequence, ByteLevel, "
        "ByteFallback, Replace, Fuse, Strip, Metaspace",
        type);
  }
}

std::string Decoding::bytes_of(std::string_view piece) const {
  if (byte_fallback_) {
    if (const int byte = byte_of(piece); byte >= 0) return {static_cast<char>(byte)};
  }
  if (byte_characters_) return from_byte_characters(piece);
  std::string text(piece);
  for (const auto& [from, to] : replaced_) text = replace_all(std::move(text), from, to);
  return text;
}

}  // namespace thinwire::data
