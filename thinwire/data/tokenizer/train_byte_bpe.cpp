#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/tokenizer/json_part.h"
#include "thinwire/data/tokenizer/stages.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<int32_t, int32_t>;

constexpr const char* kEnd = "<|endoftext|>";
constexpr const char* kWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr int64_t kFirstMerge = 257;  // tokens before it: the end, and the bytes
constexpr int64_t kFewest = 2;        // occurrences of a pair that is merged

// A word of the text, as tokens, and how often it occurs.
struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

class Trainer {
 public:
  Trainer() {
    add_token(kEnd);
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      bytes.emplace_back(byte_character(static_cast<uint8_t>(byte)));
    }
    std::ranges::sort(bytes);  // in UTF-8 this is the order of code points
    for (const std::string& one : bytes) add_token(one);
  }

  // A word in byte characters.
  void add_word(std::string_view characters, int64_t count) {
    Word word{{}, count};
    for (size_t at = 0; at < characters.size();) {
      const size_t size = (static_cast<unsigned char>(characters[at]) & 0x80U) == 0 ? 1 : 2;
      word.tokens.push_back(tokens_.at(std::string(characters.substr(at, size))));
      at += size;
    }
    words_.push_back(std::move(word));
  }

  void train(int64_t size, const std::function<void()>& waiting) {
    count_pairs();
    while (std::ssize(pieces_) < size && !queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      Candidate best = std::move(queue_.back());
      queue_.pop_back();
      if (best.count != counts_[best.pair]) {
        best.count = counts_[best.pair];
        push(std::move(best));
        continue;
      }
      if (best.count < kFewest) break;
      merge(best);
      if (waiting) waiting();
    }
  }

  int64_t size() const { return std::ssize(pieces_); }

  Json model() const {
    Json vocabulary = Json::object();
    for (size_t token = 0; token < pieces_.size(); ++token) vocabulary[pieces_[token]] = token;
    Json merges = Json::array();
    for (const auto& [left, right] : merges_) {
      merges.push_back({pieces_[static_cast<size_t>(left)], pieces_[static_cast<size_t>(right)]});
    }
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}};
  }

 private:
  // A pair to be merged, as it was when it was last counted.
  struct Candidate {
    int64_t count;
    Pair pair;
    std::set<size_t> words;  // those that may hold it
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  // The token of a piece, which may be known already.
  int32_t add_token(const std::string& piece) {
    const auto [at, added] = tokens_.emplace(piece, static_cast<int32_t>(pieces_.size()));
    if (added) pieces_.push_back(piece);
    return at->second;
  }

  void push(Candidate candidate) {
    queue_.push_back(std::move(candidate));
    std::push_heap(queue_.begin(), queue_.end());
  }

  // Takes the words out of `places`.
  void push_all(std::map<Pair, std::set<size_t>>& places) {
    for (auto& [pair, words] : places) {
      if (counts_[pair] > 0) push({counts_[pair], pair, std::move(words)});
    }
  }

  void count_pairs() {
    std::map<Pair, std::set<size_t>> places;
    for (size_t i = 0; i < words_.size(); ++i) {
      for (size_t at = 1; at < words_[i].tokens.size(); ++at) {
        const Pair pair = {words_[i].tokens[at - 1], words_[i].tokens[at]};
        counts_[pair] += words_[i].count;
        places[pair].insert(i);
      }
    }
    push_all(places);
  }

  void merge(const Candidate& best) {
    const auto [left, right] = best.pair;
    const int32_t token =
        add_token(pieces_[static_cast<size_t>(left)] + pieces_[static_cast<size_t>(right)]);
    merges_.push_back(best.pair);
    std::map<Pair, std::set<size_t>> places;
    for (const size_t i : best.words) merge_in(i, best.pair, token, places);
    push_all(places);
  }

  // Replaces the pair in a word by the token; counts the pairs that this takes and makes.
  void merge_in(size_t number, const Pair& pair, int32_t token,
                std::map<Pair, std::set<size_t>>& places) {
    Word& word = words_[number];
    std::vector<int32_t> merged;
    const auto make = [&](const Pair& made) {
      counts_[made] += word.count;
      places[made].insert(number);
    };
    for (size_t i = 0; i < word.tokens.size(); ++i) {
      const bool found = word.tokens[i] == pair.first && i + 1 < word.tokens.size() &&
                         word.tokens[i + 1] == pair.second;
      if (!found) {
        merged.push_back(word.tokens[i]);
        continue;
      }
      if (!merged.empty()) {
        counts_[{merged.back(), pair.first}] -= word.count;
        make({merged.back(), token});
      }
      merged.push_back(token);
      ++i;
      if (i + 1 < word.tokens.size()) {
        counts_[{pair.second, word.tokens[i + 1]}] -= word.count;
        make({token, word.tokens[i + 1]});
      }
    }
    word.tokens = std::move(merged);
  }

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int32_t> tokens_;
  std::vector<Word> words_;
  std::map<Pair, int64_t> counts_;
  std::vector<Candidate> queue_;  // a heap
  std::vector<Pair> merges_;
};

// How often each word occurs.
std::map<std::string, int64_t> count_words(const std::function<const std::string*()>& next,
                                           const std::function<void()>& waiting) {
  const nlohmann::json description = qwen2_pre_tokenizer();
  const auto split = read_pre_tokenizer(JsonPart(description, kEnd, "pre_tokenizer"));
  std::map<std::string, int64_t> words;
  while (const std::string* text = next()) {
    if (text->empty()) continue;
    for (TextPiece& piece : split->apply({{*text, true}})) ++words[std::move(piece.text)];
    if (waiting) waiting();
  }
  return words;
}

Json special_token() {
  return {{"id", 0},         {"content", kEnd},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

Json qwen2_pre_tokenizer() {
  return {{"type", "Sequence"},
          {"pretokenizers", Json::array({{{"type", "Split"},
                                          {"pattern", {{"Regex", kWords}}},
                                          {"behavior", "Isolated"},
                                          {"invert", false}},
                                         {{"type", "ByteLevel"},
                                          {"add_prefix_space", false},
                                          {"trim_offsets", false},
                                          {"use_regex", false}}})}};
}

std::string train_byte_bpe(const std::function<const std::string*()>& next, int64_t size,
                           const std::function<void()>& waiting) {
  if (size < kFirstMerge) {
    throw Error(fmt::format(
        "data.vocabulary_size = {} is less than the {} tokens that byte-level BPE begins with, the "
        "256 bytes and the one that ends texts",
        size, kFirstMerge));
  }
  Trainer trainer;
  for (const auto& [word, count] : count_words(next, waiting)) trainer.add_word(word, count);
  trainer.train(size, waiting);
  if (trainer.size() < size) {
    throw Error(
        fmt::format("data.vocabulary_size = {} is more than the number of pieces in this text: "
                    "set at most {}, or data.vocabulary=byte, which needs no training",
                    size, trainer.size()));
  }
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", false},
                      {"use_regex", false}};
  const Json tokenizer = {
      {"version", "1.0"},          {"truncation", nullptr},
      {"padding", nullptr},        {"added_tokens", Json::array({special_token()})},
      {"normalizer", nullptr},     {"pre_tokenizer", qwen2_pre_tokenizer()},
      {"post_processor", nullptr}, {"decoder", bytes},
      {"model", trainer.model()}};
  return keep_tokenizer(print_json(tokenizer, {.indent = 1}), "", kEnd);
}

}  // namespace thinwire::data
