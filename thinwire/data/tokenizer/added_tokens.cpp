#include "thinwire/data/tokenizer/added_tokens.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <set>
#include <utility>

namespace thinwire::data {
namespace {

bool is_word(UChar32 character) {
  return u_isUAlphabetic(character) != 0 || u_charType(character) == U_DECIMAL_DIGIT_NUMBER ||
         u_charType(character) == U_CONNECTOR_PUNCTUATION ||
         (U_GET_GC_MASK(character) & U_GC_M_MASK) != 0;
}

UChar32 first_character(std::string_view text) {
  int32_t at = 0;
  UChar32 character = 0;
  U8_NEXT(text.data(), at, static_cast<int32_t>(text.size()), character);
  return character;
}

// Bytes of the last character.
size_t last_bytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (text[text.size() - bytes] & 0xC0) == 0x80) ++bytes;
  return bytes;
}

// Bytes of white space at the end of a text, and at its beginning.
size_t spaces_behind(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t bytes = last_bytes(text.substr(0, end));
    if (u_isUWhiteSpace(first_character(text.substr(end - bytes))) == 0) break;
    end -= bytes;
  }
  return text.size() - end;
}

size_t spaces_before(std::string_view text) {
  int32_t at = 0;
  while (at < static_cast<int32_t>(text.size())) {
    int32_t next = at;
    UChar32 character = 0;
    U8_NEXT(text.data(), next, static_cast<int32_t>(text.size()), character);
    if (u_isUWhiteSpace(character) == 0) break;
    at = next;
  }
  return static_cast<size_t>(at);
}

bool inside_word(std::string_view before, std::string_view behind) {
  const auto last = before.empty() ? before : before.substr(before.size() - last_bytes(before));
  return (!last.empty() && is_word(first_character(last))) ||
         (!behind.empty() && is_word(first_character(behind)));
}

AddedToken read_token(const JsonPart& entry) {
  AddedToken token;
  token.content = entry.text_at("content");
  if (token.content.empty()) entry.refuse("has no content; expected the text of an added token");
  token.single_word = entry.flag_or("single_word", false);
  token.strip_left = entry.flag_or("lstrip", false);
  token.strip_right = entry.flag_or("rstrip", false);
  token.special = entry.flag_or("special", false);
  token.normalized = entry.flag_or("normalized", !token.special);
  return token;
}

}  // namespace

AddedTokens::AddedTokens(const JsonPart& list, const TextNormalizer* normalizer) {
  std::set<std::string> contents;
  for (const JsonPart& entry : list.items()) {
    const int32_t id = entry.at("id").token();
    const AddedToken token = read_token(entry);
    if (!contents.insert(token.content).second) {
      entry.refuse("is \"{}\", which occurs twice", token.content);
    }
    if (!tokens_.emplace(id, token).second) entry.refuse("has the id {}, which occurs twice", id);
    const std::string looked_for = token.normalized && normalizer != nullptr
                                       ? normalizer->apply(token.content)
                                       : token.content;
    (token.normalized ? normalized_ : unnormalized_).add(looked_for, id);
  }
}

std::pair<int32_t, size_t> AddedTokens::longest(std::string_view text, bool normalized) const {
  std::pair<int32_t, size_t> found = {-1, 0};
  (normalized ? normalized_ : unnormalized_).prefixes(text, [&](size_t bytes, int32_t token) {
    found = {token, bytes};
  });
  return found;
}

std::vector<TokenOrText> AddedTokens::split(std::string_view text, bool normalized) const {
  std::vector<TokenOrText> parts;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [id, bytes] = longest(text.substr(at), normalized);
    if (id < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_.at(id);
    size_t begin = at;
    size_t end = at + bytes;
    at = end;
    if (begin < done) continue;  // white space that a token took
    if (token.single_word && inside_word(text.substr(0, begin), text.substr(end))) continue;
    if (token.strip_left) begin = std::max(begin - spaces_behind(text.substr(0, begin)), done);
    if (token.strip_right) end += spaces_before(text.substr(end));
    if (begin > done) parts.push_back({-1, text.substr(done, begin - done)});
    parts.push_back({id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) parts.push_back({-1, text.substr(done)});
  return parts;
}

}  // namespace thinwire::data
