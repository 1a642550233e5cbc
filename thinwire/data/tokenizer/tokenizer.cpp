#include "thinwire/data/tokenizer/tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

// The post-processor's part that puts tokens around texts, if there is such.
std::optional<JsonPart> find_template(const JsonPart& part) {
  const std::string type = part.text_at("type");
  if (type == "TemplateProcessing" || type == "RobertaProcessing") return part;
  if (type == "ByteLevel") return std::nullopt;  // about places of tokens in the text
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("processors").items()) {
      if (auto found = find_template(step)) return found;
    }
    return std::nullopt;
  }
  part.refuse(
      "has the type \"{}\", which is not supported; supported post-processors: Sequence, "
      "ByteLevel, TemplateProcessing, RobertaProcessing",
      type);
}

// A field that is not understood may change what the file does. "thinwire" is our own
// (tokenizer_vocabulary.h).
void require_known_fields(const JsonPart& file) {
  constexpr std::array kKnown = {"version",    "truncation",    "padding", "added_tokens",
                                 "normalizer", "pre_tokenizer", "model",   "post_processor",
                                 "decoder",    "thinwire"};
  for (const auto& [key, value] : file.json().items()) {
    if (std::ranges::find(kKnown, key) != kKnown.end()) continue;
    file.refuse("has the field \"{}\", which is not supported; fields that are: {}", key,
                fmt::join(kKnown, ", "));
  }
}

}  // namespace

Tokenizer::Tokenizer(const JsonPart& file) : decoding_(file.at("decoder")) {
  require_known_fields(file);
  if (const auto part = file.find("normalizer")) normalizer_ = read_normalizer(*part);
  if (const auto part = file.find("pre_tokenizer")) pre_tokenizer_ = read_pre_tokenizer(*part);
  model_ = read_token_model(file.at("model"));
  static const JsonPart::Json no_tokens = JsonPart::Json::array();
  const auto given = file.find("added_tokens");
  const JsonPart list = given ? *given : JsonPart(no_tokens, "", "added_tokens");
  added_.emplace(list, normalizer_.get());

  int32_t last = model_->pieces().rbegin()->first;
  if (!added_->all().empty()) last = std::max(last, added_->all().rbegin()->first);
  pieces_.resize(static_cast<size_t>(last) + 1);
  for (const auto& [token, piece] : model_->pieces()) pieces_[static_cast<size_t>(token)] = piece;
  for (const auto& [token, description] : added_->all()) {
    const int32_t known = model_->find(description.content);
    std::string& piece = pieces_[static_cast<size_t>(token)];
    if ((known >= 0 && known != token) || (!piece.empty() && piece != description.content)) {
      list.refuse("gives \"{}\" the id {}, which the model's vocabulary contradicts",
                  description.content, token);
    }
    piece = description.content;
  }
  read_begin(file);
}

void Tokenizer::read_begin(const JsonPart& file) {
  const auto processor = file.find("post_processor");
  const auto rule = processor ? find_template(*processor) : std::nullopt;
  if (!rule) return;
  if (rule->text_at("type") == "RobertaProcessing") {
    const std::vector<JsonPart> begin = rule->at("cls").items();
    if (begin.size() != 2) rule->refuse("has a \"cls\" that is not a token and its id");
    begin_ = find(begin.front().text());
    if (begin_ < 0) begin.front().refuse("is \"{}\", which is not a token", begin.front().text());
    return;
  }
  const std::vector<JsonPart> single = rule->at("single").items();
  if (single.empty()) return;
  const auto first = single.front().find("SpecialToken");
  if (!first) return;
  begin_ = find(first->text_at("id"));
  if (begin_ < 0) first->refuse("is \"{}\", which is not a token", first->text_at("id"));
  if (single.size() > 1 && single[1].find("SpecialToken")) {
    rule->at("single").refuse("puts several tokens before a text; only one is supported");
  }
}

int32_t Tokenizer::find(std::string_view name) const {
  for (const auto& [token, description] : added_->all()) {
    if (description.content == name) return token;
  }
  return model_->find(name);
}

std::string Tokenizer::bytes_of(int32_t token) const {
  const auto added = added_->all().find(token);
  if (added != added_->all().end() && added->second.special) return {};
  return decoding_.bytes_of(name(token));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::string repaired;
  if (valid_utf8_prefix(text) != text.size()) {
    uint64_t replaced = 0;
    if (append_repaired(text, repaired, replaced) > 0) repaired += kReplacementCharacter;
    text = repaired;
  }
  std::vector<int32_t> tokens;
  bool first = true;
  for (const TokenOrText& part : added_->split(text, /*normalized=*/false)) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
    } else {
      encode_plain(part.text, first, tokens);
    }
    first = false;
  }
  return tokens;
}

void Tokenizer::encode_plain(std::string_view text, bool first, std::vector<int32_t>& out) const {
  std::string normal(text);
  if (normalizer_) normal = normalizer_->apply(std::move(normal));
  for (const TokenOrText& part : added_->split(normal, /*normalized=*/true)) {
    if (part.token >= 0) {
      out.push_back(part.token);
    } else {
      std::vector<TextPiece> words = {{std::string(part.text), first}};
      if (pre_tokenizer_) words = pre_tokenizer_->apply(std::move(words));
      for (const TextPiece& word : words) model_->encode(word.text, out);
    }
    first = false;
  }
}

}  // namespace thinwire::data
