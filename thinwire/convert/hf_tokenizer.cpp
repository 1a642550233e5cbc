#include "thinwire/convert/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_tokenizer_json.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"

namespace thinwire::convert {
namespace {

// Reads tokenizer.json with a sorted map where nothing depends on the order of its keys: HfJson
// searches all keys of an object before adding one.
using Json = nlohmann::json;

constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
constexpr const char* kAddedTokens = "added_tokens.json";

std::string text_of(const HfOrigin& origin, const char* name) {
  const auto found = origin.find(name);
  return found == origin.end() ? std::string() : found->second;
}

HfJson parse_object(const std::string& text, const fs::path& path) {
  if (text.empty()) return HfJson::object();
  HfJson json = try_parse_json<HfJson>(text);
  if (!json.is_object()) {
    throw Error(fmt::format("cannot import {}: it is not a JSON object", path.string()));
  }
  return json;
}

bool adds_bos(const fs::path& path, const HfJson& config) {
  const HfJson value = config.value("add_bos_token", HfJson());
  if (value.is_null()) return true;
  if (!value.is_boolean()) {
    throw Error(fmt::format("cannot import {}: add_bos_token must be true or false, got {}",
                            path.string(), print_json(value)));
  }
  return value.get<bool>();
}

// "<s>", or {"content": "<s>", ...}; empty when there is none.
std::string bos_name(const HfJson& config) {
  HfJson value = config.value("bos_token", HfJson());
  if (value.is_object()) value = value.value("content", HfJson());
  return value.is_string() ? value.get<std::string>() : std::string();
}

int32_t begin_token(const fs::path& path, const std::string& text,
                    const data::Vocabulary& vocabulary, std::optional<int64_t> bos_token_id) {
  const HfJson config = parse_object(text, path);
  const bool own = vocabulary.stored_name() == std::string(data::kTokenizerFile);
  if (own && config.value("add_bos_token", HfJson()).is_null()) return vocabulary.begin();
  if (!adds_bos(path, config)) return -1;
  const int32_t named = vocabulary.find(bos_name(config));
  if (named >= 0) return named;
  const bool known = bos_token_id == vocabulary.bos() || bos_token_id == vocabulary.eos();
  return known ? static_cast<int32_t>(*bos_token_id) : vocabulary.bos();
}

HfJson name_or_null(const data::Vocabulary& vocabulary, int32_t token) {
  return token < 0 ? HfJson() : HfJson(vocabulary.name(token));
}

// Tokens that a folder with a tokenizer.model adds to the model's pieces, as tokenizer.json lists
// them.
HfJson tokens_beside(const HfOrigin& origin, int32_t pieces) {
  HfJson tokens = HfJson::array();
  const auto add = [&](int64_t id, const std::string& content, const HfJson& described) {
    const auto same = [&](const HfJson& token) { return token["id"] == id; };
    if (id < pieces || std::ranges::any_of(tokens, same)) return;
    HfJson token = {{"id", id}, {"content", content}};
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
      token[flag] = described.value(flag, false);
    }
    token["special"] = described.value("special", true);
    tokens.push_back(std::move(token));
  };
  const HfJson config = parse_object(text_of(origin, kTokenizerConfigFile), kTokenizerConfigFile);
  const HfJson decoder = config.value("added_tokens_decoder", HfJson::object());
  for (const auto& [id, described] : decoder.items()) {
    const bool number =
        !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
    if (!number || !described.is_object() || !described.contains("content")) {
      throw Error(fmt::format("{}: added_tokens_decoder has \"{}\"; expected an id with a content",
                              kTokenizerConfigFile, id));
    }
    add(std::stoll(id), described["content"].get<std::string>(), described);
  }
  const HfJson added = parse_object(text_of(origin, kAddedTokens), kAddedTokens);
  for (const auto& [content, id] : added.items()) {
    if (!id.is_number_unsigned()) {
      throw Error(fmt::format("{}: the id of \"{}\" must be a whole number, got {}", kAddedTokens,
                              content, print_json(id)));
    }
    add(id.get<int64_t>(), content, HfJson::object());
  }
  return tokens;
}

// A tokenizer.json that puts another token before texts.
std::string with_begin(const std::string& text, const data::Vocabulary& vocabulary, int32_t begin) {
  Json json = try_parse_json<Json>(text);
  if (!json.is_object()) return text;
  json["post_processor"] = Json(print_post_processor(vocabulary, begin));
  return print_json(json) + "\n";
}

}  // namespace

HfJson print_tokenizer_config(const data::Vocabulary& vocabulary, int64_t sequence, int32_t begin) {
  return {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"model_max_length", sequence},
      {"add_bos_token", begin >= 0},
      {"add_eos_token", false},
      {"bos_token", name_or_null(vocabulary, begin >= 0 ? begin : vocabulary.bos())},
      {"eos_token", name_or_null(vocabulary, vocabulary.eos())},
      {"unk_token", name_or_null(vocabulary, vocabulary.unknown())},
      {"clean_up_tokenization_spaces", false},
  };
}

int32_t read_begin_token(const fs::path& folder, const data::Vocabulary& vocabulary,
                         std::optional<int64_t> bos_token_id) {
  const fs::path path = folder / kTokenizerConfigFile;
  return begin_token(path, fs::exists(path) ? read_text_file(path) : "", vocabulary, bos_token_id);
}

int32_t origin_begin_token(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  const auto config = origin.find("config.json");
  std::optional<int64_t> bos;
  if (config != origin.end()) bos = parse_hf_config(config->second, config->first).bos;
  return begin_token(kTokenizerConfigFile, text_of(origin, kTokenizerConfigFile), vocabulary, bos);
}

std::vector<std::string> write_tokenizer(const fs::path& dir, const data::Vocabulary& vocabulary,
                                         const HfOrigin& origin, const TokenizerUse& before,
                                         const TokenizerUse& now) {
  const bool own = vocabulary.stored_name() == std::string(data::kTokenizerFile);
  if (!own) write_file(dir / kTokenizerModel, vocabulary.stored_text());
  HfJson described = print_tokenizer_config(vocabulary, before.sequence, before.begin);
  HfJson config = print_tokenizer_config(vocabulary, now.sequence, now.begin);
  std::vector<std::string> notes;
  if (own || origin.contains(kTokenizerJson)) {
    const std::string imported =
        own ? data::tokenizer_json_in(vocabulary.stored_text()) : text_of(origin, kTokenizerJson);
    const bool same = (origin.empty() ? vocabulary.begin() : before.begin) == now.begin;
    write_file(dir / kTokenizerJson, same ? imported : with_begin(imported, vocabulary, now.begin));
  } else if (const auto json = print_tokenizer_json(vocabulary, now.begin,
                                                    tokens_beside(origin, vocabulary.size()))) {
    write_file(dir / kTokenizerJson, *json);
    described.erase("tokenizer_class");  // the one that came in would not read the file as it is
  } else {
    config["tokenizer_class"] = "LlamaTokenizer";
    notes.push_back(
        fmt::format("{} cannot say what this {} does, so transformers may make other tokens of a "
                    "text; sentencepiece makes the right ones.",
                    kTokenizerJson, kTokenizerModel));
  }
  write_file(dir / kTokenizerConfigFile,
             merge_json(text_of(origin, kTokenizerConfigFile), described, config));
  if (origin.contains(kSpecialTokensMap)) {
    const HfJson bos = {{"bos_token", config["bos_token"]}};
    const bool same = described["bos_token"] == config["bos_token"];
    write_file(dir / kSpecialTokensMap,
               merge_json(text_of(origin, kSpecialTokensMap), same ? bos : HfJson::object(), bos));
  }
  return notes;
}

}  // namespace thinwire::convert
