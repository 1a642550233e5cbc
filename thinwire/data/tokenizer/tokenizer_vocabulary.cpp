#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/data/tokenizer/tokenizer.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHead = "{\"thinwire\": ";
constexpr std::string_view kEndOfHead = ",\n";

// Names of the tokens that begin and end texts; empty: there is none.
struct TextEnds {
  std::string bos;
  std::string eos;
};

std::string named_token(const Json& json, const char* key) {
  return token_name(json.value(key, Json()));
}

// The name of an id, or of the first of a list.
std::string name_of_id(const Tokenizer& tokenizer, Json id) {
  if (id.is_array() && !id.empty()) id = Json(id[0]);
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(tokenizer.size())) {
    return {};
  }
  return tokenizer.name(id.get<int32_t>());
}

TextEnds find_ends(const fs::path& file, const Json& content, const Tokenizer& tokenizer) {
  const auto kept = content.find("thinwire");
  if (kept != content.end() && kept->is_object()) {
    return {named_token(*kept, "bos_token"), named_token(*kept, "eos_token")};
  }
  Json names = read_json_beside(file, "special_tokens_map.json");
  names.update(read_json_beside(file, "tokenizer_config.json"));
  const Json ids = read_json_beside(file, "config.json");
  TextEnds ends = {named_token(names, "bos_token"), named_token(names, "eos_token")};
  if (ends.bos.empty()) ends.bos = name_of_id(tokenizer, ids.value("bos_token_id", Json()));
  if (ends.eos.empty()) ends.eos = name_of_id(tokenizer, ids.value("eos_token_id", Json()));
  return ends;
}

// Leaves out the added tokens for which the embedding has no rows; false: there are none. Some
// published models have such a token for padding.
bool leave_out_rowless(const fs::path& file, Json& tokenizer) {
  const auto rows = rows_beside(file);
  const auto tokens = tokenizer.find("added_tokens");
  if (!rows || tokens == tokenizer.end() || !tokens->is_array()) return false;
  Json kept = Json::array();
  for (Json& token : *tokens) {
    const Json id = token.is_object() ? token.value("id", Json()) : Json();
    if (!id.is_number_unsigned() || id.get<uint64_t>() < *rows) kept.push_back(std::move(token));
  }
  const bool fewer = kept.size() < tokens->size();
  *tokens = std::move(kept);
  return fewer;
}

class TokenizerVocabulary final : public Vocabulary {
 public:
  TokenizerVocabulary(const fs::path& file, Tokenizer tokenizer, const TextEnds& ends,
                      std::string kept)
      : Vocabulary(file, hash_bytes(as_bytes(kept))),
        tokenizer_(std::move(tokenizer)),
        bos_(tokenizer_.find(ends.bos)),
        eos_(tokenizer_.find(ends.eos)),
        kept_(std::move(kept)) {
    for (int32_t token = 0; token < tokenizer_.size(); ++token) {
      pieces_.push_back(tokenizer_.bytes_of(token));
    }
  }

  int32_t size() const override { return tokenizer_.size(); }
  int32_t bos() const override { return bos_; }
  int32_t eos() const override { return eos_; }
  int32_t unknown() const override { return tokenizer_.unknown(); }
  int32_t begin() const override { return tokenizer_.begin(); }
  bool is_added(int32_t token) const override { return tokenizer_.is_added(token); }
  bool leading_space() const override { return tokenizer_.leading_space(); }
  bool whole_texts() const override { return true; }
  const char* stored_name() const override { return kTokenizerFile; }
  std::string stored_text() const override { return kept_; }

  std::vector<int32_t> encode(std::string_view text) const override {
    return tokenizer_.encode(text);
  }
  std::string piece(int32_t token) const override {
    check(token);
    return pieces_[static_cast<size_t>(token)];
  }
  std::string name(int32_t token) const override {
    check(token);
    return tokenizer_.name(token);
  }
  int32_t find(std::string_view name) const override { return tokenizer_.find(name); }

 private:
  void check(int32_t token) const {
    if (token >= 0 && token < size()) return;
    throw Error(fmt::format("token {} is outside the vocabulary of {}", token, size()));
  }

  Tokenizer tokenizer_;
  int32_t bos_;
  int32_t eos_;
  std::string kept_;
  std::vector<std::string> pieces_;  // the bytes of each token
};

}  // namespace

Json read_json_beside(const fs::path& file, const char* name) {
  const fs::path path = file.parent_path() / name;
  if (!is_file(path)) return Json::object();
  const std::string text = read_text_file(path);
  Json json = try_parse_json<Json>(text);
  if (!json.is_object()) throw Error(fmt::format("{} is {}", path.string(), json_fault(text)));
  return json;
}

std::optional<uint64_t> rows_beside(const fs::path& file) {
  const Json rows = read_json_beside(file, "config.json").value("vocab_size", Json());
  return rows.is_number_unsigned() ? std::optional(rows.get<uint64_t>()) : std::nullopt;
}

std::string token_name(const Json& token) {
  const Json name = token.is_object() ? token.value("content", Json()) : token;
  return name.is_string() ? name.get<std::string>() : std::string();
}

std::unique_ptr<Vocabulary> read_tokenizer_vocabulary(const fs::path& file, std::string content) {
  Json json = try_parse_json<Json>(content);
  if (!json.is_object()) {
    throw Error(fmt::format("{} is {}", file.string(),
                            json_fault(content, "not a JSON object, or is truncated")));
  }
  const bool is_stored = json.contains("thinwire");
  if (!is_stored && leave_out_rowless(file, json)) content = print_json(json) + "\n";
  Tokenizer tokenizer(JsonPart(json, file.string(), ""));
  const TextEnds ends = find_ends(file, json, tokenizer);
  for (const auto& [name, key] : {std::pair{ends.bos, "bos_token"}, {ends.eos, "eos_token"}}) {
    if (name.empty() || tokenizer.find(name) >= 0) continue;
    throw Error(fmt::format("{} is \"{}\", which is not a token of {}", key, name, file.string()));
  }
  const std::string kept = is_stored ? content : keep_tokenizer(content, ends.bos, ends.eos);
  return std::make_unique<TokenizerVocabulary>(file, std::move(tokenizer), ends, kept);
}

std::string keep_tokenizer(const std::string& content, const std::string& bos,
                           const std::string& eos) {
  const Json head = {{"bos_token", bos}, {"eos_token", eos}};
  return fmt::format("{}{}{}{}", kHead, print_json(head), kEndOfHead,
                     content.substr(content.find('{') + 1));
}

std::string tokenizer_json_in(const std::string& kept) {
  const size_t end = kept.find(kEndOfHead);
  if (!kept.starts_with(kHead) || end == std::string::npos) return kept;
  return "{" + kept.substr(end + kEndOfHead.size());
}

}  // namespace thinwire::data
