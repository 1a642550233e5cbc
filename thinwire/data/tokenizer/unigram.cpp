#include <algorithm>
#include <limits>
#include <utility>

#include "thinwire/data/tokenizer/added_tokens.h"
#include "thinwire/data/tokenizer/stages.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

// The cost of an unknown character relative to the least likely piece; SentencePiece's value.
constexpr double kUnknownPenalty = 10;

class Unigram final : public TokenModel {
 public:
  explicit Unigram(const JsonPart& part) : byte_fallback_(part.flag_or("byte_fallback", false)) {
    double least = std::numeric_limits<double>::infinity();
    for (const JsonPart& entry : part.at("vocab").items()) {
      const std::vector<JsonPart> pair = entry.items();
      if (pair.size() != 2) entry.refuse("must be a piece and its score");
      const auto token = static_cast<int32_t>(scores_.size());
      scores_.push_back(pair[1].number());
      least = std::min(least, scores_.back());
      add(entry, token, pair[0].text());
      tree_.add(pieces().at(token), token);
    }
    if (scores_.empty()) part.at("vocab").refuse("is empty");
    if (const auto unknown = part.find("unk_id")) unknown_ = unknown->token();
    if (unknown_ >= static_cast<int32_t>(scores_.size())) {
      part.at("unk_id").refuse("is {}, but there are {} pieces", unknown_, scores_.size());
    }
    unknown_score_ = least - kUnknownPenalty;
  }

  void encode(std::string_view word, std::vector<int32_t>& out) const override {
    const std::vector<Step> best = best_path(word);
    std::vector<std::pair<int32_t, std::string_view>> path;
    for (size_t end = word.size(); end > 0; end = best[end].begin) {
      const int32_t token = best[end].token;
      const std::string_view text = word.substr(best[end].begin, end - best[end].begin);
      if (token < 0 && !path.empty() && path.back().first < 0) {  // unknown characters are one
        path.back().second = {text.data(), text.size() + path.back().second.size()};
      } else {
        path.emplace_back(token, text);
      }
    }
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      if (at->first >= 0) {
        out.push_back(at->first);
      } else if (!(byte_fallback_ && append_bytes(at->second, out)) && unknown_ >= 0) {
        out.push_back(unknown_);
      }
    }
  }

 private:
  // The best path to a position in the word: its last piece, and where that begins.
  struct Step {
    double score = 0;
    size_t begin = 0;
    int32_t token = -1;
    bool reached = false;
  };

  std::vector<Step> best_path(std::string_view word) const {
    std::vector<Step> best(word.size() + 1);
    for (size_t begin = 0; begin < word.size();) {
      const double score = best[begin].score;
      const size_t character = utf8_step(word.substr(begin)).bytes;
      bool spelled = false;
      const auto offer = [&](size_t bytes, int32_t token, double more) {
        Step& step = best[begin + bytes];
        if (step.reached && step.score >= score + more) return;
        step = {score + more, begin, token, true};
      };
      tree_.prefixes(word.substr(begin), [&](size_t bytes, int32_t token) {
        offer(bytes, token == unknown_ ? -1 : token, scores_[static_cast<size_t>(token)]);
        spelled = spelled || bytes == character;
      });
      if (!spelled) offer(character, -1, unknown_score_);
      begin += character;
    }
    return best;
  }

  bool byte_fallback_;
  double unknown_score_ = 0;
  std::vector<double> scores_;  // by token
  PrefixTree tree_;
};

}  // namespace

std::unique_ptr<const TokenModel> read_unigram(const JsonPart& part) {
  return std::make_unique<Unigram>(part);
}

}  // namespace thinwire::data
