
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/sentencepiece_model.h"
#include "thinwire/data/tokenizer/json_part.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kAddedFile = "added_tokens.json";

class RulesBeside {
 public:
  explicit RulesBeside(const Vocabulary& model)
      : model_(model),
        config_(read_json_beside(model.file(), kConfigFile)),
        rows_(rows_beside(model.file())),
        names_(read_json_beside(model.file(), "special_tokens_map.json")) {
    names_.update(config_);
    read_decoder();
    read_added();
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
                            "cls_token", "mask_token"}) {
      add_special(token_name(names_.value(key, Json())));
    }
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const Json list = names_.value(key, Json());
      if (!list.is_array()) continue;
      for (const Json& token : list) add_special(token_name(token));
    }
  }

  Json rules() const {
    Json added = Json::array();
    for (const auto& [id, token] : added_) added.push_back(token);
    const std::string bos = text_end("bos_token", model_.bos());
    return {{"added_tokens", added},
            {"bos_token", bos},
            {"eos_token", text_end("eos_token", model_.eos())},
            {"begin", begin(bos)},
            {"space", space()}};
  }

 private:
  fs::path beside(const char* name) const { return model_.file().parent_path() / name; }

  // Whether the model itself never takes this piece for text.
  bool is_special_piece(int32_t token) const {
    return token == model_.unknown() || model_.piece(token).empty();
  }

  // Leaves out what the model has itself, and tokens for which its embedding has no rows.
  void add(int64_t id, const std::string& content, const Json& described, bool special) {
    if (rows_ && static_cast<uint64_t>(id) >= *rows_) return;
    if (id < model_.size()) {
      const auto token = static_cast<int32_t>(id);
      if (model_.name(token) == content && is_special_piece(token)) return;
    }
    Json token = {{"id", static_cast<uint64_t>(id)},
                  {"content", content},
                  {"special", special},
                  {"normalized", false}};
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
      token[flag] = described.value(flag, Json()) == true;
    }
    ids_.emplace(content, id);
    added_.emplace(id, std::move(token));
  }

  void read_decoder() {
    const Json decoder = config_.value("added_tokens_decoder", Json());
    if (!decoder.is_object()) return;
    for (const auto& [id, described] : decoder.items()) {
      const bool number =
          !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
      const std::string content = token_name(described);
      if (!number || !described.is_object() || content.empty()) {
        throw Error(
            fmt::format("{}: added_tokens_decoder has \"{}\"; expected an id with a content",
                        beside(kConfigFile).string(), id));
      }
      add(std::stoll(id), content, described, described.value("special", Json(false)) == true);
    }
  }

  void read_added() {
    const Json listed = read_json_beside(model_.file(), kAddedFile);
    for (const auto& [content, id] : listed.items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > JsonPart::kMaxToken) {
        throw Error(fmt::format("{}: the id of \"{}\" must be a whole number up to {}, got {}",
                                beside(kAddedFile).string(), content, JsonPart::kMaxToken,
                                print_json(id)));
      }
      if (!added_.contains(id.get<int64_t>()))
        add(id.get<int64_t>(), content, Json::object(), false);
    }
  }

  // The named special tokens are found in a text, too.
  void add_special(const std::string& name) {
    if (name.empty()) return;
    if (const auto known = ids_.find(name); known != ids_.end()) {
      added_.at(known->second)["special"] = true;
    } else if (const int32_t token = model_.find(name); token >= 0) {
      add(token, name, Json::object(), true);
    }
  }

  bool is_token(const std::string& name) const {
    return ids_.contains(name) || model_.find(name) >= 0;
  }

  std::string text_end(const char* key, int32_t own) const {
    std::string name = token_name(names_.value(key, Json()));
    if (name.empty()) return own < 0 ? std::string() : model_.name(own);
    if (is_token(name)) return name;
    throw Error(fmt::format("{}: {} is \"{}\", which is neither a piece of {} nor an added token",
                            beside(kConfigFile).string(), key, name,
                            model_.file().filename().string()));
  }

  std::string begin(const std::string& bos) const {
    const Json adds = config_.value("add_bos_token", Json());
    if (!adds.is_null() && !adds.is_boolean()) {
      throw Error(fmt::format("{}: add_bos_token must be true or false, got {}",
                              beside(kConfigFile).string(), print_json(adds)));
    }
    if (adds == false) return {};
    if (!token_name(names_.value("bos_token", Json())).empty()) return bos;
    const Json id = read_json_beside(model_.file(), "config.json").value("bos_token_id", Json());
    return id == model_.eos() && model_.eos() >= 0 ? model_.name(model_.eos()) : bos;
  }

  const char* space() const {
    if (config_.value("add_prefix_space", Json()) == false) return "none";
    return config_.value("legacy", Json()) == false ? "first" : "every";
  }

  const Vocabulary& model_;
  const Json config_;
  const std::optional<uint64_t> rows_;  // of the embedding
  Json names_;                          // of special tokens
  std::map<int64_t, Json> added_;       // by id
  std::map<std::string, int64_t> ids_;  // of the added tokens
};

Json rules_of_model(const Vocabulary& model) {
  const auto name = [&](int32_t token) { return token < 0 ? std::string() : model.name(token); };
  return {{"added_tokens", Json::array()},
          {"bos_token", name(model.bos())},
          {"eos_token", name(model.eos())},
          {"begin", name(model.bos())},
          {"space", "every"}};
}

// The field that holds the rules.
std::string field_of(const std::string& rules) {
  std::string field;
  const auto put = [&](uint64_t number) {
    for (; number >= 0x80; number >>= 7) field += static_cast<char>(number | 0x80);
    field += static_cast<char>(number);
  };
  put(kSentencePieceRulesField << 3 | 2);
  put(rules.size());
  return field + rules;
}

}  // namespace

Json read_sentencepiece_rules(const Vocabulary& model) {
  const Json rules = RulesBeside(model).rules();
  return rules == rules_of_model(model) ? Json() : rules;
}

std::string with_sentencepiece_rules(std::string_view model, const Json& rules) {
  return std::string(model) + field_of(print_json(rules));
}

Json sentencepiece_rules_in(std::string_view stored, const std::string& file) {
  const std::string text = parse_sentencepiece(stored, file).rules;
  if (text.empty()) return Json::object();
  Json rules = try_parse_json<Json>(text);
  const JsonPart part(rules, file, "");
  for (const char* key : {"bos_token", "eos_token", "begin"}) part.text_at(key);
  const std::string space = part.text_at("space");
  if (space != "every" && space != "first" && space != "none") {
    part.at("space").refuse("must be every, first or none, got \"{}\"", space);
  }
  for (const JsonPart& token : part.at("added_tokens").items()) token.at("id").token();
  return rules;
}

std::string without_sentencepiece_rules(std::string_view stored) {
  const std::string rules = parse_sentencepiece(stored, "").rules;
  if (!rules.empty()) stored.remove_suffix(field_of(rules).size());
  return std::string(stored);
}

}  // namespace thinwire::data
