#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_tokenizer.h"
#include "thinwire/data/sentencepiece_model.h"
#include "thinwire/data/utf8.h"

namespace thinwire::convert {
namespace {

using data::PieceKind;
using data::SentencePieceModel;
using Json = HfJson;

constexpr const char* kSpaceMark = "\xE2\x96\x81";  // U+2581
// Below the score of every path of other pieces, so that text that spells a special piece is never
// tokenized as it.
constexpr double kNeverChosen = -1e6;

Json regex(const char* pattern) { return {{"Regex", pattern}}; }
Json text(const char* pattern) { return {{"String", pattern}}; }
Json replace(Json pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

Json normalizer(const SentencePieceModel& model, const std::string& space) {
  Json steps = Json::array();
  if (!model.normalization.empty()) {
    steps.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model.normalization)}});
  }
  if (model.single_spaces) {
    steps.push_back(replace(regex("^ +| +$"), ""));
    steps.push_back(replace(regex(" {2,}"), " "));
  }
  if (model.leading_space && space == "every") {
    steps.push_back({{"type", "Prepend"}, {"prepend", " "}});
  }
  if (model.mark_spaces) steps.push_back(replace(text(" "), kSpaceMark));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

// Unigrams put a character that no piece has below kNeverChosen, so in a text that spells the piece
// of a byte with such characters, "<0x41>", that piece would be chosen: it is cut in two.
Json cut_bytes() {
  return {{"type", "Split"},
          {"pattern", regex("<(?=0x[0-9A-F]{2}>)")},
          {"behavior", "MergedWithPrevious"},
          {"invert", false}};
}

Json pre_tokenizer(const SentencePieceModel& model, const std::string& space) {
  Json steps = Json::array();
  if (model.leading_space && space == "first") {
    steps.push_back({{"type", "Metaspace"},
                     {"replacement", kSpaceMark},
                     {"prepend_scheme", "first"},
                     {"split", false}});
  }
  if (model.type == SentencePieceModel::Type::kUnigram && model.byte_fallback) {
    steps.push_back(cut_bytes());
  }
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

Json decoder(const SentencePieceModel& model, bool leading_space) {
  Json steps = Json::array();
  if (model.mark_spaces) steps.push_back(replace(text(kSpaceMark), " "));
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (leading_space) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

bool is_special(PieceKind kind) {
  return kind == PieceKind::kUnknown || kind == PieceKind::kControl;
}

Json added_tokens(const SentencePieceModel& model, const nlohmann::json& rules) {
  std::map<int64_t, Json> tokens;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& [content, score, kind] = model.pieces[id];
    if (!is_special(kind) && kind != PieceKind::kUserDefined) continue;
    std::string written = content;
    for (size_t at = 0; kind == PieceKind::kUserDefined && at < written.size(); ++at) {
      if (written.compare(at, 3, kSpaceMark) == 0) written.replace(at, 3, " ");
    }
    tokens[static_cast<int64_t>(id)] = {
        {"id", id},        {"content", written},  {"single_word", false},       {"lstrip", false},
        {"rstrip", false}, {"normalized", false}, {"special", is_special(kind)}};
  }
  for (const nlohmann::json& token : rules.value("added_tokens", nlohmann::json::array())) {
    tokens[token.at("id").get<int64_t>()] = Json(token);
  }
  Json list = Json::array();
  for (auto& [id, token] : tokens) list.push_back(std::move(token));
  return list;
}

// Every way to split a piece into two pieces of the vocabulary, best piece first.
Json merges(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].kind == PieceKind::kNormal) ids.emplace(model.pieces[id].text, id);
  }
  struct Merge {
    float score;
    size_t left, right;
  };
  std::vector<Merge> all;
  for (const auto& [piece, id] : ids) {
    for (size_t at = data::utf8_step(piece).bytes; at < piece.size();
         at += data::utf8_step(piece.substr(at)).bytes) {
      const auto left = ids.find(piece.substr(0, at));
      const auto right = ids.find(piece.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      all.push_back({model.pieces[id].score, left->second, right->second});
    }
  }
  std::ranges::sort(all, {}, [](const Merge& merge) {
    return std::tuple(-merge.score, merge.left, merge.right);
  });
  Json list = Json::array();
  for (const Merge& merge : all) {
    list.push_back(Json::array({model.pieces[merge.left].text, model.pieces[merge.right].text}));
  }
  return list;
}

std::string unknown_name(const SentencePieceModel& model) {
  const auto found =
      std::ranges::find(model.pieces, PieceKind::kUnknown, &SentencePieceModel::Piece::kind);
  return found == model.pieces.end() ? std::string() : found->text;
}

Json bpe(const SentencePieceModel& model) {
  // A map sorted by text, because the insertion-ordered one searches all its keys before adding
  // one.
  nlohmann::json vocab = nlohmann::json::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) vocab[model.pieces[id].text] = id;
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown_name(model)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", false},
          {"vocab", vocab},
          {"merges", merges(model)}};
}

Json unigram(const SentencePieceModel& model) {
  Json vocab = Json::array();
  Json unknown;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& [content, score, kind] = model.pieces[id];
    const bool in_text = kind == PieceKind::kNormal || kind == PieceKind::kUserDefined;
    vocab.push_back(Json::array({content, in_text ? static_cast<double>(score) : kNeverChosen}));
    if (kind == PieceKind::kUnknown) unknown = id;
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown},
          {"vocab", std::move(vocab)},
          {"byte_fallback", model.byte_fallback}};
}

}  // namespace

HfJson print_post_processor(const data::Vocabulary& vocabulary, int32_t begin) {
  if (begin < 0) return nullptr;
  const std::string name = vocabulary.name(begin);
  const auto put = [&](int type) -> Json {
    return {{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* id, int type) -> Json {
    return {{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  Json pair = Json::array({put(0), sequence("A", 0)});
  if (begin != vocabulary.eos())
    pair.push_back(put(1));  // converters to GGUF take an EOS here for a separator
  pair.push_back(sequence("B", 1));
  Json tokens;
  tokens[name] = {{"id", name}, {"ids", Json::array({begin})}, {"tokens", Json::array({name})}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({put(0), sequence("A", 0)})},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

std::optional<std::string> print_tokenizer_json(const data::Vocabulary& vocabulary, int32_t begin) {
  using Type = SentencePieceModel::Type;
  const std::string stored = vocabulary.stored_text();
  const SentencePieceModel model = data::parse_sentencepiece(stored, vocabulary.file().string());
  if (model.type == Type::kWord || model.type == Type::kChar || model.space_suffix) return {};
  const nlohmann::json rules = data::sentencepiece_rules_in(stored, vocabulary.file().string());
  const std::string space = rules.value("space", "every");
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens(model, rules)},
                     {"normalizer", normalizer(model, space)},
                     {"pre_tokenizer", pre_tokenizer(model, space)},
                     {"post_processor", print_post_processor(vocabulary, begin)},
                     {"decoder", decoder(model, vocabulary.leading_space())},
                     {"model", model.type == Type::kBpe ? bpe(model) : unigram(model)}};
  return print_json(json) + "\n";
}

}  // namespace thinwire::convert
