#include "thinwire/convert/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/sentencepiece_model.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"

namespace thinwire::convert {
namespace {

// Reads tokenizer.json with a sorted map where nothing depends on the order of its keys: HfJson
// searches all keys of an object before adding one.
using Json = nlohmann::json;

constexpr const char* kSpecialTokensMap = "special_tokens_map.json";

std::string text_of(const HfOrigin& origin, const char* name) {
  const auto found = origin.find(name);
  return found == origin.end() ? std::string() : found->second;
}

HfJson parse_object(const std::string& text, const fs::path& path) {
  if (text.empty()) return HfJson::object();
  HfJson json = try_parse_json<HfJson>(text);
  if (!json.is_object()) {
    throw Error(fmt::format("cannot import {}: it is {}", path.string(), json_fault(text)));
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
  if (!adds_bos(path, config)) return -1;
  const int32_t named = vocabulary.find(bos_name(config));
  if (named >= 0) return named;
  const bool known = bos_token_id == vocabulary.bos() || bos_token_id == vocabulary.eos();
  return known ? static_cast<int32_t>(*bos_token_id) : vocabulary.bos();
}

bool is_tokenizer_json(const data::Vocabulary& vocabulary) {
  return vocabulary.stored_name() == std::string(data::kTokenizerFile);
}

std::string shown(const data::Vocabulary& vocabulary, int32_t token) {
  return token < 0 ? "nothing" : vocabulary.name(token);
}

// Whether the tokenizer's class is one that transformers 4 and 5 build anew, partly without looking
// into tokenizer.json.
bool is_llama_class(const HfJson& config) {
  const HfJson kind = config.value("tokenizer_class", HfJson());
  return kind == "LlamaTokenizer" || kind == "LlamaTokenizerFast";
}

// Where transformers 4 and 5 begin texts differently.
std::string begin_note(const HfJson& config, const HfOrigin& origin,
                       const data::Vocabulary& vocabulary) {
  const HfJson adds = config.value("add_bos_token", HfJson());
  const int32_t begin = origin_begin_token(origin, vocabulary);
  if (!origin.contains(kTokenizerJson)) {
    if (is_tokenizer_json(vocabulary) || begin < 0 || !adds.is_null()) return {};
    return fmt::format(
        "{} does not say add_bos_token: {} stands before texts here, as in transformers 4; "
        "transformers 5 puts nothing there.",
        kTokenizerConfigFile, shown(vocabulary, begin));
  }
  if (!is_llama_class(config) || !is_tokenizer_json(vocabulary)) return {};
  const int32_t by_flag =
      begin_token(kTokenizerConfigFile, text_of(origin, kTokenizerConfigFile), vocabulary, {});
  if (by_flag == begin) return {};
  return fmt::format(
      "{} puts {} before texts, {} has {}, which means {}: here, as in transformers 5, the former "
      "counts; transformers 4 follows the latter.",
      kTokenizerJson, shown(vocabulary, begin), kTokenizerConfigFile,
      adds.is_null() ? "no add_bos_token" : "add_bos_token = " + print_json(adds),
      shown(vocabulary, by_flag));
}

// Where transformers 5 does not read tokenizer.json as it is.
std::string rebuilding_note(const HfJson& config, const HfOrigin& origin,
                            const data::Vocabulary& vocabulary) {
  if (!is_llama_class(config) || !is_tokenizer_json(vocabulary)) return {};
  const Json json = try_parse_json<Json>(text_of(origin, kTokenizerJson));
  const Json normalizer = json.is_object() ? json.value("normalizer", Json()) : Json();
  if (print_json(normalizer).find("\"Prepend\"") == std::string::npos) return {};
  return fmt::format(
      "transformers 5 replaces the normalizer of {} by one of its class {}, and may give text "
      "behind special tokens other tokens; here, as in transformers 4, the file counts.",
      kTokenizerJson, config["tokenizer_class"].get<std::string>());
}

HfJson name_or_null(const data::Vocabulary& vocabulary, int32_t token) {
  return token < 0 ? HfJson() : HfJson(vocabulary.name(token));
}

// A tokenizer_config.json in the words of transformers 4, which 5 understands too. Null if there is
// none.
HfJson for_both_versions(const std::string& text) {
  HfJson config = try_parse_json<HfJson>(text);
  if (!config.is_object()) return nullptr;
  const auto extra = config.find("extra_special_tokens");
  if (extra != config.end() && extra->is_array()) {
    config["additional_special_tokens"] = std::move(*extra);
    config.erase("extra_special_tokens");
  }
  const auto kind = config.find("tokenizer_class");
  if (kind == config.end()) return config;
  if (*kind == "TokenizersBackend") *kind = "PreTrainedTokenizerFast";
  if (*kind != "PreTrainedTokenizerFast") return config;
  if (!config.contains("model_input_names")) {
    config["model_input_names"] = HfJson::array({"input_ids", "attention_mask"});
  }
  return config;
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
      // Without this, transformers 4 gives token types too, which causal models do not take.
      {"model_input_names", HfJson::array({"input_ids", "attention_mask"})},
  };
}

int32_t read_begin_token(const fs::path& checkpoint, const data::Vocabulary& vocabulary) {
  const fs::path path = checkpoint / kTokenizerConfigFile;
  return begin_token(path, fs::exists(path) ? read_text_file(path) : "", vocabulary, {});
}

int32_t origin_begin_token(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  if (is_tokenizer_json(vocabulary)) return vocabulary.begin();
  const auto config = origin.find("config.json");
  std::optional<int64_t> bos;
  if (config != origin.end()) bos = parse_hf_config(config->second, config->first).bos;
  return begin_token(kTokenizerConfigFile, text_of(origin, kTokenizerConfigFile), vocabulary, bos);
}

std::vector<std::string> tokenizer_notes(const HfOrigin& origin,
                                         const data::Vocabulary& vocabulary) {
  const HfJson config = parse_object(text_of(origin, kTokenizerConfigFile), kTokenizerConfigFile);
  if (config.empty()) return {};
  std::vector<std::string> notes;
  for (std::string note :
       {begin_note(config, origin, vocabulary), rebuilding_note(config, origin, vocabulary)}) {
    if (!note.empty()) notes.push_back(std::move(note));
  }
  return notes;
}

std::vector<std::string> write_tokenizer(const fs::path& dir, const data::Vocabulary& vocabulary,
                                         const HfOrigin& origin, const TokenizerUse& before,
                                         const TokenizerUse& now) {
  const bool own = is_tokenizer_json(vocabulary);
  if (!own) {
    write_file(dir / kTokenizerModel, data::without_sentencepiece_rules(vocabulary.stored_text()));
  } else if (const auto pieces = origin.find(kTokenizerModel); pieces != origin.end()) {
    write_file(dir / kTokenizerModel, pieces->second);
  }
  HfJson described = print_tokenizer_config(vocabulary, before.sequence, before.begin);
  HfJson config = print_tokenizer_config(vocabulary, now.sequence, now.begin);
  if (before.begin != now.begin) described.erase("add_bos_token");  // it may have had no effect
  std::vector<std::string> notes;
  if (own) notes = tokenizer_notes(origin, vocabulary);
  if (own || origin.contains(kTokenizerJson)) {
    const std::string imported =
        own ? data::tokenizer_json_in(vocabulary.stored_text()) : text_of(origin, kTokenizerJson);
    const bool same = (own ? vocabulary.begin() : before.begin) == now.begin;
    write_file(dir / kTokenizerJson, same ? imported : with_begin(imported, vocabulary, now.begin));
  } else if (const auto json = print_tokenizer_json(vocabulary, now.begin)) {
    write_file(dir / kTokenizerJson, *json);
    // The class that came in would not read the file as it is, and this one reads other names.
    described.erase("tokenizer_class");
    described.erase("model_input_names");
  } else {
    config["tokenizer_class"] = "LlamaTokenizer";
    notes.push_back(
        fmt::format("{} cannot say what this {} does, so transformers may make other tokens of a "
                    "text; sentencepiece makes the right ones.",
                    kTokenizerJson, kTokenizerModel));
  }
  const HfJson given = for_both_versions(text_of(origin, kTokenizerConfigFile));
  write_file(dir / kTokenizerConfigFile,
             merge_json(given.is_null() ? "" : print_json(given), described, config));
  if (origin.contains(kSpecialTokensMap)) {
    const HfJson bos = {{"bos_token", config["bos_token"]}};
    const bool same = described["bos_token"] == config["bos_token"];
    write_file(dir / kSpecialTokensMap,
               merge_json(text_of(origin, kSpecialTokensMap), same ? bos : HfJson::object(), bos));
  }
  return notes;
}

}  // namespace thinwire::convert
