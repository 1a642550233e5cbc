// Text <-> tokens. Three kinds of vocabulary: a SentencePiece model (file vocabulary.model,
// sentencepiece_model.h), plain bytes (file vocabulary.json): 256 byte values, then EOS (256)
// and BOS (257), and a Hugging Face tokenizer.json (file vocabulary.tokenizer.json,
// tokenizer/tokenizer_vocabulary.h), which normalises and splits text as that file says.
//
// Encoding never adds BOS or EOS, but the names of special and added tokens in a text become these
// tokens, as in transformers. Text is taken as it is (no Unicode normalisation); SentencePiece text
// gets the usual leading-space marker, which decoding removes again, so that decode(encode(text))
// == text for valid UTF-8 without U+2581 (the marker itself) and such names, with models that
// train_sentencepiece makes. Models from elsewhere may normalise. Thread-safe: all const members
// may be called at once from many threads. Source: Kudo and Richardson 2018, arXiv 1808.06226; BPE
// after Sennrich et al. 2016, arXiv 1508.07909.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/sections.h"

namespace thinwire::data {

namespace fs = std::filesystem;

inline constexpr const char* kSentencePieceFile = "vocabulary.model";
inline constexpr const char* kByteFile = "vocabulary.json";
inline constexpr const char* kTokenizerFile = "vocabulary.tokenizer.json";

class Vocabulary {
 public:
  // Finds one of the three files in a folder or, if none exists, those of a Hugging Face folder:
  // tokenizer.json, else tokenizer.model, which is also taken where tokenizer.json cannot be read,
  // else vocab.json with merges.txt (tokenizer_vocabulary.h). Throws Error when there is none or it
  // is damaged.
  static std::unique_ptr<Vocabulary> load(const fs::path& folder);
  // The same, but null when there is none.
  static std::unique_ptr<Vocabulary> find_in(const fs::path& folder);
  // Reads one file: a SentencePiece model (.model), or the byte vocabulary or a tokenizer (.json).
  // All but stored vocabularies are read with the files beside them.
  static std::unique_ptr<Vocabulary> load_file(const fs::path& file);

  virtual ~Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  virtual int32_t size() const = 0;
  virtual int32_t bos() const = 0;  // -1 when absent
  virtual int32_t eos() const = 0;  // -1 when absent
  // What stands for text that the vocabulary cannot spell; -1 when absent.
  virtual int32_t unknown() const { return -1; }
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // A part of a text, which is encoded by itself: a token by its name, or other text (token -1).
  struct Part {
    int32_t token = -1;
    std::string_view text;
    bool space = true;  // encoding puts a space before it
  };
  // The parts of a text, in order. Unless whole_texts(), encoding a text gives the same as encoding
  // its parts.
  virtual std::vector<Part> parts(std::string_view text) const { return {{-1, text}}; }
  // The tokens of a part that is other text, or of its beginning or, with a space, its end.
  virtual std::vector<int32_t> encode_part(std::string_view text, bool /*space*/) const {
    return encode(text);
  }
  // The bytes a token stands for inside a text (BOS, EOS and other control tokens: none). They need
  // not be complete UTF-8. Throws Error when the token is outside the vocabulary.
  virtual std::string piece(int32_t token) const = 0;
  // A token's name in the vocabulary's file, e.g. "</s>" (bytes have no names), and the token with
  // a given name, or -1.
  virtual std::string name(int32_t token) const = 0;
  virtual int32_t find(std::string_view name) const = 0;
  // Whether a text that holds the token's name becomes this token: special and added tokens.
  virtual bool is_added(int32_t /*token*/) const { return false; }
  // Whether encoding puts a space before a text, which decoding must remove.
  virtual bool leading_space() const = 0;
  // The token that the vocabulary's own file puts before a text; -1: none.
  virtual int32_t begin() const { return bos(); }
  // Whether a text must always be encoded whole, never cut at spaces.
  virtual bool whole_texts() const { return false; }
  // The file as prepared folders and checkpoints keep it, complete in itself.
  virtual const char* stored_name() const = 0;
  virtual std::string stored_text() const;

  // Bytes that are not UTF-8 (a byte token without the rest of its character) become U+FFFD.
  std::string decode(std::span<const int32_t> tokens) const;
  // Hash of stored_text(), stored in shards so that those of another vocabulary are recognised.
  uint64_t digest() const { return digest_; }
  const fs::path& file() const { return file_; }

 protected:
  Vocabulary(fs::path file, uint64_t digest) : file_(std::move(file)), digest_(digest) {}

 private:
  fs::path file_;
  uint64_t digest_;
};

// Decodes token by token, for generation: returns only complete UTF-8 characters and holds back the
// rest until it is complete. All results of push() and finish() together equal decode().
class TextStream {
 public:
  // continues: the tokens follow a text already shown, so a leading space is kept.
  explicit TextStream(const Vocabulary& vocabulary, bool continues = false)
      : vocabulary_(vocabulary), strip_space_(!continues && vocabulary.leading_space()) {}

  std::string push(int32_t token);
  // Returns what was held back, incomplete characters as U+FFFD.
  std::string finish();

 private:
  const Vocabulary& vocabulary_;
  bool strip_space_;
  std::string held_;
};

struct SentencePieceOptions {
  config::SentencePieceKind type = config::SentencePieceKind::kBpe;
  int64_t size = 4096;  // pieces, including the 256 byte pieces and unk, bos, eos
};

// Trains a SentencePiece model and returns the model file's bytes. next() returns the training text
// piece by piece and nullptr at its end; a piece stays valid until the next call. Ids as in Llama
// (unk 0, bos 1, eos 2), byte fallback, digits split, no normalisation. The same text gives the
// same bytes. Throws Error naming data.vocabulary_size when the text cannot fill that many pieces.
// waiting() is called a few times a second during training; an exception from it ends the call, but
// the trainer's thread runs on until it or the process is done.
std::string train_sentencepiece(const std::function<const std::string*()>& next,
                                const SentencePieceOptions& options,
                                const std::function<void()>& waiting = {});

// The byte vocabulary's file.
std::string byte_vocabulary_json();

// Trains byte-level BPE (Sennrich et al. 2016, arXiv 1508.07909; on bytes: Radford et al. 2019,
// GPT-2) and writes it as a tokenizer.json.
//
// Text is split into words by the pattern of Qwen 2, which takes digits one by one. The vocabulary
// is that of the tokenizers package's BpeTrainer(special_tokens=["<|endoftext|>"], min_frequency=2,
// initial_alphabet=ByteLevel.alphabet()): <|endoftext|>, which ends texts, then the 256 bytes in
// the order of their characters (stages.h), then a token for each merge. The pair that
// occurs most often is merged next; of several, the one of the lower tokens.

// The part of a tokenizer.json that splits a text as Qwen 2 does.
nlohmann::ordered_json qwen2_pre_tokenizer();

// next() returns the training text, valid UTF-8, piece by piece and nullptr at its end; a piece
// stays valid until the next call. Returns the tokenizer as Thinwire stores it
// (tokenizer_vocabulary.h), with `size` tokens; the same text gives the same bytes. waiting() is
// called often, and an exception from it ends the call. Throws Error naming data.vocabulary_size
// where it is too small for the bytes or more than the text gives.
std::string train_byte_bpe(const std::function<const std::string*()>& next, int64_t size,
                           const std::function<void()>& waiting = {});

}  // namespace thinwire::data
