#include "thinwire/data/encoder.h"

#include <algorithm>

namespace thinwire::data {
namespace {

constexpr size_t kLongestWord = 64;            // longer ones are rare and not worth caching
constexpr size_t kMaxWords = size_t{1} << 18;  // a few tens of MB

bool is_separable(const Vocabulary& vocabulary) {
  if (!vocabulary.leading_space() || vocabulary.whole_texts()) return false;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string piece = vocabulary.piece(token);
    const size_t text = piece.find_first_not_of(' ');
    if (text != std::string::npos && piece.find(' ', text) != std::string::npos) return false;
  }
  return true;
}

// Where the first word ends: before the first space that has another character before and after it
// (a space at the text's end stays with its word, because an empty text has no tokens).
size_t word_end(std::string_view text) {
  const size_t visible = text.find_first_not_of(' ');
  const size_t end = text.find(' ', visible);
  return text.find_first_not_of(' ', end) == std::string_view::npos ? text.size() : end;
}

void append(const std::vector<int32_t>& tokens, std::vector<int32_t>& out) {
  out.insert(out.end(), tokens.begin(), tokens.end());
}

}  // namespace

Encoder::Encoder(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), separable_(is_separable(vocabulary)) {}

void Encoder::encode(std::string_view text, std::vector<int32_t>& out) {
  if (vocabulary_.whole_texts()) return append(vocabulary_.encode(text), out);
  for (const Vocabulary::Part& part : vocabulary_.parts(text)) {
    if (part.token >= 0) {
      out.push_back(part.token);
    } else {
      encode_part(part.text, part.space, out);
    }
  }
}

void Encoder::encode_part(std::string_view text, bool space, std::vector<int32_t>& out) {
  if (!separable_) return append(vocabulary_.encode_part(text, space), out);
  if (!space) {
    const size_t end = word_end(text);
    append(vocabulary_.encode_part(text.substr(0, end), false), out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!text.empty()) {
    const size_t end = word_end(text);
    encode_word(text.substr(0, end), out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void Encoder::encode(std::string_view text, const std::vector<TextPart>& ranges,
                     std::vector<int32_t>& out, std::vector<bool>& inside) {
  const size_t first = out.size();
  encode(text, out);
  const auto whole = std::span<const int32_t>(out).subspan(first);
  inside.resize(out.size(), false);
  for (const TextPart& range : ranges) {
    if (range.begin == range.end) continue;
    const size_t begin = tokens_before(text, range.begin, whole, false);
    const size_t end = tokens_before(text, range.end, whole, true);
    for (size_t i = begin; i < end; ++i) inside[first + i] = true;
  }
}

size_t Encoder::tokens_before(std::string_view text, size_t end, std::span<const int32_t> whole,
                              bool across) {
  if (end == text.size()) return whole.size();
  std::vector<int32_t> before;
  encode(text.substr(0, end), before);
  const auto [differs, other] = std::ranges::mismatch(before, whole);
  const auto common = static_cast<size_t>(differs - before.begin());
  return across && common < before.size() ? std::min(common + 1, whole.size()) : common;
}

void Encoder::encode_word(std::string_view word, std::vector<int32_t>& out) {
  key_.assign(word);
  auto known = words_.find(key_);
  if (known == words_.end()) {
    auto tokens = vocabulary_.encode_part(word, true);
    // The words seen first are the frequent ones, so a full cache keeps what it has.
    if (word.size() > kLongestWord || words_.size() >= kMaxWords) {
      return append(tokens, out);
    }
    known = words_.emplace(key_, std::move(tokens)).first;
  }
  out.insert(out.end(), known->second.begin(), known->second.end());
}

}  // namespace thinwire::data
