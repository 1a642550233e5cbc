#include "thinwire/data/vocabulary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/data/sentencepiece_model.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

void check_token(int32_t token, int32_t size) {
  if (token < 0 || token >= size) {
    throw Error(fmt::format("token {} is outside the vocabulary of {}", token, size));
  }
}

class ByteVocabulary final : public Vocabulary {
 public:
  ByteVocabulary(fs::path file, uint64_t digest) : Vocabulary(std::move(file), digest) {}

  int32_t size() const override { return kBos + 1; }
  int32_t bos() const override { return kBos; }
  int32_t eos() const override { return kEos; }
  bool leading_space() const override { return false; }
  const char* stored_name() const override { return kByteFile; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
    return tokens;
  }

  std::string piece(int32_t token) const override {
    check_token(token, size());
    return token < kEos ? std::string(1, static_cast<char>(token)) : std::string();
  }

  std::string name(int32_t token) const override {
    check_token(token, size());
    if (token == kEos) return "<eos>";
    return token == kBos ? "<bos>" : std::string();
  }

  int32_t find(std::string_view name) const override {
    if (name == "<eos>") return kEos;
    return name == "<bos>" ? kBos : -1;
  }

 private:
  static constexpr int32_t kEos = 256;
  static constexpr int32_t kBos = 257;
};

}  // namespace

std::unique_ptr<Vocabulary> Vocabulary::find_in(const fs::path& folder) {
  for (const char* name : {kSentencePieceFile, kByteFile, kTokenizerFile}) {
    if (file_exists(folder / name)) return load_file(folder / name);
  }
  const bool pieces = file_exists(folder / "tokenizer.model");
  if (const fs::path file = folder / "tokenizer.json"; file_exists(file)) {
    std::string content = read_text_file(file);  // its errors are not about what is supported
    try {
      return read_tokenizer_vocabulary(file, std::move(content));
    } catch (const Error&) {
      if (!pieces) throw;
    }
  }
  if (pieces) return load_file(folder / "tokenizer.model");
  if (has_vocab_and_merges(folder)) return load_file(folder / kVocabFile);
  return nullptr;
}

std::unique_ptr<Vocabulary> Vocabulary::load(const fs::path& folder) {
  if (auto vocabulary = find_in(folder)) return vocabulary;
  if (!file_exists(folder)) {
    throw Error(
        fmt::format("no vocabulary in {}: there is no such folder here; `thinwire prepare RECIPE` "
                    "makes it",
                    folder.string()));
  }
  throw Error(
      fmt::format("no vocabulary in {}: expected {} or {}, as `thinwire prepare` writes them",
                  folder.string(), kSentencePieceFile, kByteFile));
}

std::unique_ptr<Vocabulary> Vocabulary::load_file(const fs::path& file) {
  if (file.filename() == kVocabFile) {
    return read_tokenizer_vocabulary(file, join_vocab_and_merges(file.parent_path()));
  }
  const std::string content = read_text_file(file);
  if (file.extension() != ".json") return read_sentencepiece_vocabulary(file, content);
  if (file.filename() != kByteFile) return read_tokenizer_vocabulary(file, content);
  const auto json = try_parse_json<nlohmann::json>(content);
  if (!json.is_object() || json.value("vocabulary", nlohmann::json()) != "byte") {
    throw Error(fmt::format("{} is not a byte vocabulary: expected {}", file.string(),
                            byte_vocabulary_json()));
  }
  return std::make_unique<ByteVocabulary>(file, hash_bytes(as_bytes(content)));
}

std::string Vocabulary::stored_text() const { return read_text_file(file_); }

std::string byte_vocabulary_json() { return "{\"vocabulary\": \"byte\"}\n"; }

std::string Vocabulary::decode(std::span<const int32_t> tokens) const {
  TextStream stream(*this);
  std::string text;
  for (const int32_t token : tokens) text += stream.push(token);
  return text + stream.finish();
}

std::string TextStream::push(int32_t token) {
  std::string bytes = vocabulary_.piece(token);
  if (strip_space_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.erase(0, 1);
    strip_space_ = false;
  }
  held_ += bytes;
  std::string out;
  uint64_t replaced = 0;
  const size_t left = append_repaired(held_, out, replaced);
  held_.erase(0, held_.size() - left);
  return out;
}

std::string TextStream::finish() {
  const bool incomplete = !held_.empty();
  held_.clear();
  return incomplete ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace thinwire::data
