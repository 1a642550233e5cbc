#include <algorithm>
#include <cstddef>
#include <queue>
#include <tuple>
#include <utility>

#include "thinwire/data/tokenizer/stages.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

struct Merge {
  int32_t rank = 0;  // lower ones first
  int32_t token = 0;
};

struct PairHash {
  size_t operator()(uint64_t pair) const {
    pair *= 0x9E3779B97F4A7C15u;
    return pair ^ pair >> 32;
  }
};

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A token of a word that is being merged, linked to its neighbours.
struct Symbol {
  int32_t token = -1;
  int32_t previous = -1;
  int32_t next = -1;
  bool gone = false;  // merged into the one before
};

// A merge that was possible when it was noted; the lowest rank first, then the leftmost.
struct Candidate {
  int32_t rank;
  int32_t at;
  int32_t token;
  bool operator<(const Candidate& other) const {
    return std::tie(rank, at) > std::tie(other.rank, other.at);
  }
};

class Bpe final : public TokenModel {
 public:
  explicit Bpe(const JsonPart& part)
      : byte_fallback_(part.flag_or("byte_fallback", false)),
        fuse_unknown_(part.flag_or("fuse_unk", false)),
        ignore_merges_(part.flag_or("ignore_merges", false)) {
    refuse_unsupported(part);
    read_vocab(part.at("vocab"));
    const std::string unknown = part.text_or("unk_token", "");
    unknown_ = find(unknown);
    if (!unknown.empty() && unknown_ < 0)
      part.refuse("has the unk_token \"{}\", which is not a piece", unknown);
    int32_t rank = 0;
    for (const JsonPart& merge : part.at("merges").items()) read_merge(merge, rank++);
  }

  void encode(std::string_view word, std::vector<int32_t>& out) const override {
    if (ignore_merges_) {
      if (const int32_t whole = find(word); whole >= 0) {
        out.push_back(whole);
        return;
      }
    }
    std::vector<Symbol> symbols = spell(word);
    merge_all(symbols);
    for (const Symbol& symbol : symbols) {
      if (!symbol.gone) out.push_back(symbol.token);
    }
  }

 private:
  static void refuse_unsupported(const JsonPart& part) {
    if (const auto dropout = part.find("dropout"); dropout && dropout->number() != 0) {
      dropout->refuse("is {}; only null is supported, the same tokens every time",
                      dropout->number());
    }
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!part.text_or(affix, "").empty()) {
        part.at(affix).refuse("is \"{}\"; only null is supported", part.text_at(affix));
      }
    }
  }

  void read_vocab(const JsonPart& vocab) {
    if (!vocab.json().is_object()) vocab.refuse("must be an object of pieces and their ids");
    for (const auto& [piece, id] : vocab.json().items()) {
      add(vocab, vocab.at(piece).token(), piece);
    }
    if (pieces().empty()) vocab.refuse("is empty");
  }

  // "left right", or ["left", "right"].
  void read_merge(const JsonPart& merge, int32_t rank) {
    std::string left, right;
    if (merge.json().is_array() && merge.json().size() == 2) {
      left = merge.items()[0].text();
      right = merge.items()[1].text();
    } else {
      const std::string both = merge.text();
      const size_t space = both.find(' ');
      if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
        merge.refuse("is \"{}\"; expected two pieces with a space between", both);
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    for (const std::string& piece : {left, right, left + right}) {
      if (find(piece) < 0) {
        merge.refuse("merges \"{}\" and \"{}\", but \"{}\" is not in the vocabulary", left, right,
                     piece);
      }
    }
    const Merge made = {rank, find(left + right)};
    if (!merges_.emplace(pair_of(find(left), find(right)), made).second) {
      merge.refuse("merges \"{}\" and \"{}\", as an earlier merge already does", left, right);
    }
  }

  // The word with one token per character.
  std::vector<Symbol> spell(std::string_view word) const {
    std::vector<int32_t> tokens;
    bool after_unknown = false;
    while (!word.empty()) {
      const std::string_view character = word.substr(0, utf8_step(word).bytes);
      word.remove_prefix(character.size());
      const int32_t token = find(character);
      const bool unknown =
          token < 0 && !(byte_fallback_ && append_bytes(character, tokens)) && unknown_ >= 0;
      if (token >= 0) tokens.push_back(token);
      if (unknown && !(fuse_unknown_ && after_unknown)) tokens.push_back(unknown_);
      after_unknown = unknown;
    }
    std::vector<Symbol> symbols(tokens.size());
    const auto count = static_cast<int32_t>(tokens.size());
    for (int32_t i = 0; i < count; ++i) {
      symbols[static_cast<size_t>(i)] = {tokens[static_cast<size_t>(i)], i - 1,
                                         i + 1 < count ? i + 1 : -1, false};
    }
    return symbols;
  }

  using Queue = std::priority_queue<Candidate>;

  // Notes the merge of the symbol at `at` with the next one, if there is such.
  void note(const std::vector<Symbol>& symbols, int32_t at, Queue& queue) const {
    if (at < 0) return;
    const Symbol& left = symbols[static_cast<size_t>(at)];
    if (left.next < 0) return;
    const auto found =
        merges_.find(pair_of(left.token, symbols[static_cast<size_t>(left.next)].token));
    if (found != merges_.end()) queue.push({found->second.rank, at, found->second.token});
  }

  void merge_all(std::vector<Symbol>& symbols) const {
    Queue queue;
    for (size_t at = 0; at < symbols.size(); ++at) note(symbols, static_cast<int32_t>(at), queue);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(best.at)];
      if (left.gone || left.next < 0) continue;
      Symbol& right = symbols[static_cast<size_t>(left.next)];
      const auto found = merges_.find(pair_of(left.token, right.token));
      if (found == merges_.end() || found->second.token != best.token) continue;  // out of date
      left.token = best.token;
      left.next = right.next;
      right.gone = true;
      if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.at;
      note(symbols, left.previous, queue);
      note(symbols, best.at, queue);
    }
  }

  bool byte_fallback_;
  bool fuse_unknown_;
  bool ignore_merges_;
  std::unordered_map<uint64_t, Merge, PairHash> merges_;
};

}  // namespace

std::unique_ptr<const TokenModel> read_bpe(const JsonPart& part) {
  return std::make_unique<Bpe>(part);
}

}  // namespace thinwire::data
