#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/sentencepiece_model.h"
#include "thinwire/data/tokenizer/added_tokens.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, how SentencePiece writes a space
// A field of the model's file that replaces an earlier one: normalizer_spec.add_dummy_prefix =
// false.
constexpr std::string_view kNoSpaceBefore("\x1A\x02\x18\x00", 4);

void load_model(sentencepiece::SentencePieceProcessor& processor, const std::string& model,
                const fs::path& file) {
  const auto status = processor.LoadFromSerializedProto(model);
  if (status.ok() && processor.GetPieceSize() > 0) return;
  throw Error(fmt::format("{} is not a SentencePiece model, or a damaged one", file.string()));
}

// The control pieces and those of `rules`, as a tokenizer.json lists added tokens.
Json added_tokens(const sentencepiece::SentencePieceProcessor& processor, const Json& rules) {
  std::map<int64_t, Json> tokens;
  for (int32_t token = 0; token < processor.GetPieceSize(); ++token) {
    if (!processor.IsControl(token) && !processor.IsUnknown(token)) continue;
    const std::string& content = processor.IdToPiece(token);
    if (content.empty()) continue;
    tokens[token] = {{"id", static_cast<uint64_t>(token)},
                     {"content", content},
                     {"special", true},
                     {"normalized", false}};
  }
  for (const Json& token : rules.value("added_tokens", Json::array())) {
    tokens[token.at("id").get<int64_t>()] = token;
  }
  Json list = Json::array();
  for (auto& [id, token] : tokens) list.push_back(std::move(token));
  return list;
}

class SentencePieceVocabulary final : public Vocabulary {
 public:
  SentencePieceVocabulary(const fs::path& file, std::string stored)
      : Vocabulary(file, hash_bytes(as_bytes(stored))), stored_(std::move(stored)) {
    load_model(processor_, stored_, file);
    const Json rules = sentencepiece_rules_in(stored_, file.string());
    const Json added = added_tokens(processor_, rules);
    added_.emplace(JsonPart(added, file.string(), "added_tokens"), nullptr);
    const std::string space = rules.value("space", "every");
    every_space_ = space == "every";
    first_space_ = space != "none";
    if (!every_space_)
      load_model(without_space_.emplace(), stored_ + std::string(kNoSpaceBefore), file);
    name_pieces();
    bos_ = rules.empty() ? processor_.bos_id() : find(rules.value("bos_token", ""));
    eos_ = rules.empty() ? processor_.eos_id() : find(rules.value("eos_token", ""));
    begin_ = rules.empty() ? bos_ : find(rules.value("begin", ""));
    const auto probe = encode("a");
    leading_space_ = !probe.empty() && piece(probe[0]).starts_with(' ');
  }

  int32_t size() const override { return static_cast<int32_t>(names_.size()); }
  int32_t bos() const override { return bos_; }
  int32_t eos() const override { return eos_; }
  int32_t begin() const override { return begin_; }
  int32_t unknown() const override { return processor_.unk_id(); }
  bool leading_space() const override { return leading_space_; }
  bool is_added(int32_t token) const override { return added_->all().contains(token); }
  const char* stored_name() const override { return kSentencePieceFile; }
  std::string stored_text() const override { return stored_; }

  std::vector<Part> parts(std::string_view text) const override {
    std::vector<Part> parts;
    for (const TokenOrText& part : added_->split(text, /*normalized=*/false)) {
      // As in transformers, where there is a space already, only the first rule adds another one.
      const bool first = parts.empty() && first_space_ && !part.text.starts_with(' ') &&
                         !part.text.starts_with(kSpaceMark);
      parts.push_back({part.token, part.text, every_space_ || first});
    }
    return parts;
  }

  std::vector<int32_t> encode_part(std::string_view text, bool space) const override {
    std::vector<int> tokens;
    const auto& processor = space ? processor_ : without_space_.value();
    const auto status = processor.Encode({text.data(), text.size()}, &tokens);
    if (!status.ok()) throw Error(fmt::format("cannot encode text: {}", status.ToString()));
    return tokens;
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    for (const Part& part : parts(text)) {
      if (part.token >= 0) {
        tokens.push_back(part.token);
        continue;
      }
      const auto more = encode_part(part.text, part.space);
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    return tokens;
  }

  std::string piece(int32_t token) const override {
    check(token);
    return pieces_[static_cast<size_t>(token)];
  }

  std::string name(int32_t token) const override {
    check(token);
    return names_[static_cast<size_t>(token)];
  }

  int32_t find(std::string_view name) const override {
    for (const auto& [token, description] : added_->all()) {
      if (description.content == name) return token;
    }
    const int token = processor_.PieceToId(absl::string_view(name.data(), name.size()));
    return processor_.IdToPiece(token) == name ? token : -1;
  }

 private:
  void check(int32_t token) const {
    if (token >= 0 && token < size()) return;
    throw Error(fmt::format("token {} is outside the vocabulary of {}", token, size()));
  }

  void name_pieces() {
    for (int32_t token = 0; token < processor_.GetPieceSize(); ++token) {
      names_.push_back(processor_.IdToPiece(token));
      pieces_.push_back(surface(token));
    }
    for (const auto& [token, added] : added_->all()) {
      const auto at = static_cast<size_t>(token);
      const auto size = std::max(at + 1, names_.size());
      names_.resize(size);
      pieces_.resize(size);
      names_[at] = added.content;
      if (token != processor_.unk_id()) pieces_[at] = added.special ? std::string() : added.content;
    }
  }

  std::string surface(int32_t token) const {
    const std::string& written = processor_.IdToPiece(token);
    if (processor_.IsControl(token)) return {};
    if (processor_.IsUnknown(token)) return std::string(kReplacementCharacter);
    if (processor_.IsByte(token)) {
      return std::string(1, static_cast<char>(std::stoi(written.substr(3, 2), nullptr, 16)));
    }
    std::string text;
    for (size_t at = 0; at < written.size();) {
      const bool space = written.compare(at, kSpaceMark.size(), kSpaceMark) == 0;
      text += space ? ' ' : written[at];
      at += space ? kSpaceMark.size() : 1;
    }
    return text;
  }

  const std::string stored_;
  sentencepiece::SentencePieceProcessor processor_;
  // The same without a space before texts; only if the rules need it.
  std::optional<sentencepiece::SentencePieceProcessor> without_space_;
  std::optional<AddedTokens> added_;
  bool every_space_ = true;
  bool first_space_ = true;
  std::vector<std::string> names_;   // of each token
  std::vector<std::string> pieces_;  // the bytes of each token
  int32_t bos_ = -1;
  int32_t eos_ = -1;
  int32_t begin_ = -1;
  bool leading_space_ = false;
};

}  // namespace

std::unique_ptr<Vocabulary> read_sentencepiece_vocabulary(const fs::path& file,
                                                          const std::string& content) {
  auto model = std::make_unique<SentencePieceVocabulary>(file, content);
  if (file.filename() == kSentencePieceFile) return model;
  const Json rules = read_sentencepiece_rules(*model);
  if (rules.is_null()) return model;
  return std::make_unique<SentencePieceVocabulary>(file, with_sentencepiece_rules(content, rules));
}

}  // namespace thinwire::data
