#include "thinwire/convert/hf_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"

namespace thinwire::convert {
namespace {

using Json = nlohmann::ordered_json;

Json read_tokenizer_config(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json json = Json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(fmt::format("cannot import {}: it is not a JSON object", path.string()));
  }
  return json;
}

bool adds_bos(const fs::path& path, const Json& config) {
  const Json value = config.value("add_bos_token", Json());
  if (value.is_null()) return true;
  if (!value.is_boolean()) {
    throw Error(fmt::format("cannot import {}: add_bos_token must be true or false, got {}",
                            path.string(), value.dump()));
  }
  return value.get<bool>();
}

// "<s>", or {"content": "<s>", ...}; empty when there is none.
std::string bos_name(const Json& config) {
  Json value = config.value("bos_token", Json());
  if (value.is_object()) value = value.value("content", Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

Json name_or_null(const data::Vocabulary& vocabulary, int32_t token) {
  return token < 0 ? Json() : Json(vocabulary.name(token));
}

}  // namespace

std::string print_tokenizer_config(const data::Vocabulary& vocabulary, int64_t sequence,
                                   int32_t begin) {
  const Json json = {
      {"tokenizer_class", "LlamaTokenizer"},
      {"model_max_length", sequence},
      {"add_bos_token", begin >= 0},
      {"add_eos_token", false},
      {"bos_token", name_or_null(vocabulary, begin >= 0 ? begin : vocabulary.bos())},
      {"eos_token", name_or_null(vocabulary, vocabulary.eos())},
      {"unk_token", "<unk>"},
      {"clean_up_tokenization_spaces", false},
      {"legacy", false},
      {"add_prefix_space", vocabulary.leading_space()},
  };
  return json.dump(2) + "\n";
}

int32_t read_begin_token(const fs::path& folder, const data::Vocabulary& vocabulary,
                         std::optional<int64_t> bos_token_id) {
  const fs::path path = folder / kTokenizerConfigFile;
  const Json config = read_tokenizer_config(path);
  if (!adds_bos(path, config)) return -1;
  const int32_t named = vocabulary.find(bos_name(config));
  if (named >= 0) return named;
  const bool known = bos_token_id == vocabulary.bos() || bos_token_id == vocabulary.eos();
  return known ? static_cast<int32_t>(*bos_token_id) : vocabulary.bos();
}

}  // namespace thinwire::convert
