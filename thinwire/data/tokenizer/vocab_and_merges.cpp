
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"
#include "thinwire/data/utf8.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::json;

enum Kind : uint8_t { kGpt2, kRoberta, kQwen2 };

// Special tokens, and their names of each kind where no file gives any; empty: none.
constexpr std::array<std::pair<const char*, std::array<const char*, 3>>, 7> kSpecial{{
    {"bos_token", {"<|endoftext|>", "<s>", ""}},
    {"eos_token", {"<|endoftext|>", "</s>", "<|endoftext|>"}},
    {"unk_token", {"<|endoftext|>", "<unk>", "<|endoftext|>"}},
    {"sep_token", {"", "</s>", ""}},
    {"pad_token", {"", "<pad>", "<|endoftext|>"}},
    {"cls_token", {"", "<s>", ""}},
    {"mask_token", {"", "<mask>", ""}},
}};

class Joined {
 public:
  explicit Joined(const fs::path& folder)
      : file_(folder / kVocabFile),
        vocab_(read_json_beside(file_, kVocabFile)),
        config_(read_json_beside(file_, "tokenizer_config.json")),
        kind_(find_kind()) {
    // transformers looks into the other files only where this field is absent.
    const Json described = config_.value("added_tokens_decoder", Json());
    if (described.is_null()) config_.update(read_json_beside(file_, "special_tokens_map.json"));
    std::map<std::string, Json> special;
    for (const auto& [key, names] : kSpecial) {
      const Json token = config_.value(key, Json(names[kind_]));
      if (!config_.contains(key) && !vocab_.contains(names[kind_])) continue;
      special.emplace(token_name(token), with_flags(token, key == std::string_view("mask_token")));
    }
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      for (const Json& token : config_.value(key, Json::array())) {
        special.emplace(token_name(token), with_flags(token, false));
      }
    }
    special.erase("");
    for (const auto& [id, token] : described.items()) add(try_parse_json<Json>(id), token);
    if (described.is_null()) {
      const Json listed = read_json_beside(file_, "added_tokens.json");
      for (const auto& [name, id] : listed.items()) {
        const bool known = special.contains(name);
        add(id, {{"content", name}, {"special", known}, {"normalized", !known}});
      }
    }
    for (const auto& [name, token] : special) {
      if (!ids_.contains(name)) add(vocab_.value(name, Json()), token);
    }
  }

  Json tokenizer() const {
    const bool space = config_.value("add_prefix_space", Json()) == true;
    const Json bytes = {{"type", "ByteLevel"},
                        {"add_prefix_space", space},
                        {"trim_offsets", true},
                        {"use_regex", true}};
    Json added = Json::array();
    for (const auto& [id, token] : added_) added.push_back(token);
    return {{"version", "1.0"},
            {"added_tokens", added},
            {"normalizer", kind_ == kQwen2 ? Json({{"type", "NFC"}}) : Json()},
            {"pre_tokenizer", kind_ == kQwen2 ? Json(qwen2_pre_tokenizer()) : bytes},
            {"post_processor", post_processor(space)},
            {"decoder", bytes},
            {"model", {{"type", "BPE"}, {"vocab", vocab_}, {"merges", read_merges()}}}};
  }

 private:
  Json post_processor(bool space) const {
    if (kind_ == kRoberta) {
      return {{"type", "RobertaProcessing"},
              {"sep", end("sep_token", "</s>")},
              {"cls", end("cls_token", "<s>")},
              {"trim_offsets", true},
              {"add_prefix_space", space}};
    }
    if (kind_ != kGpt2 || config_.value("add_bos_token", Json()) != true) return nullptr;
    const Json bos = end("bos_token", "<|endoftext|>");
    const Json token = {{"id", bos[0]}, {"type_id", 0}};
    const Json text = {{"id", "A"}, {"type_id", 0}};
    return {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", token}}, {{"Sequence", text}}}},
        {"pair",
         {{{"SpecialToken", token}},
          {{"Sequence", text}},
          {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens", {{bos[0], {{"id", bos[0]}, {"ids", {bos[1]}}, {"tokens", {bos[0]}}}}}}};
  }

  Kind find_kind() const {
    const Json model = read_json_beside(file_, "config.json").value("model_type", Json());
    const Json named = config_.value("tokenizer_class", Json());
    std::string kind = named.is_string() ? named.get<std::string>() : "GPT2Tokenizer";
    if (named.is_null() && model == "roberta") kind = "RobertaTokenizer";
    if (named.is_null() && (model == "qwen2" || model == "qwen3")) kind = "Qwen2Tokenizer";
    if (kind.ends_with("Fast")) kind.resize(kind.size() - 4);
    if (kind == "GPT2Tokenizer") return kGpt2;
    if (kind == "RobertaTokenizer") return kRoberta;
    if (kind == "Qwen2Tokenizer") return kQwen2;
    throw Error(
        fmt::format("{}: tokenizer_config.json has tokenizer_class = \"{}\"; without a "
                    "tokenizer.json only GPT2Tokenizer, RobertaTokenizer and "
                    "Qwen2Tokenizer are supported",
                    file_.string(), kind));
  }

  // As transformers describes special tokens of which it knows no more than the name.
  static Json with_flags(const Json& token, bool mask) {
    Json described = token;
    if (!token.is_object()) described = {{"content", token}, {"lstrip", mask}};
    described["special"] = true;
    return described;
  }

  void add(const Json& id, const Json& described) {
    const std::string name = token_name(described);
    if (!id.is_number_unsigned() || !described.is_object() || name.empty()) {
      throw Error(
          fmt::format("{}: the added token {} has the id {}; expected a content, and an id "
                      "from the vocabulary or the files beside it",
                      file_.string(), print_json(described), print_json(id)));
    }
    Json token = {{"id", id}, {"content", name}};
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
      token[flag] = described.value(flag, Json()) == true;
    }
    ids_[name] = id;
    added_[id.get<uint64_t>()] = std::move(token);
  }

  // A token that stands before or behind texts, with its id.
  Json end(const char* key, const char* usual) const {
    const std::string name = token_name(config_.value(key, Json(usual)));
    const auto id = ids_.find(name);
    return Json::array({name, id == ids_.end() ? Json() : id->second});
  }

  Json read_merges() const {
    const fs::path path = file_.parent_path() / kMergesFile;
    const std::string text = read_text_file(path);
    if (valid_utf8_prefix(text) != text.size()) throw Error(path.string() + " is not UTF-8");
    std::istringstream lines(text);
    Json merges = Json::array();
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
    }
    return merges;
  }

  fs::path file_;  // vocab.json
  Json vocab_;
  Json config_;  // tokenizer_config.json, with special_tokens_map.json if that counts
  Kind kind_;
  std::map<uint64_t, Json> added_;   // by id
  std::map<std::string, Json> ids_;  // of the added tokens
};

}  // namespace

bool has_vocab_and_merges(const fs::path& folder) {
  return is_file(folder / kVocabFile) && is_file(folder / kMergesFile);
}

std::string join_vocab_and_merges(const fs::path& folder) {
  return print_json(Joined(folder).tokenizer()) + "\n";
}

}  // namespace thinwire::data
