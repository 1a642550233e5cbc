#include "thinwire/model/scorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/model/batch.h"
#include "thinwire/tensor/kernels/kernels.h"

namespace thinwire::model {
namespace {

constexpr int64_t kTokensTogether = 1024;      // enough for products at full speed
constexpr int64_t kLogits = int64_t{1} << 23;  // computed together, at most
constexpr int64_t kMaxLogitRows = 512;

// What is fed to the model: all tokens but the last.
std::span<const int32_t> inputs_of(const ScoredText& text) {
  return text.tokens.first(text.tokens.size() - 1);
}

int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// The texts in an order in which those that begin alike are neighbours.
std::vector<size_t> sorted_order(std::span<const ScoredText> texts) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::ranges::lexicographical_compare(texts[a].tokens, texts[b].tokens);
  });
  return order;
}

}  // namespace

// A prediction that is asked for: of `target`, by the logits of a row of the plan.
struct Scorer::Request {
  int64_t row;
  int32_t target;
  size_t text;
};

// The rows to compute, one for each token that no earlier text has in the same place after the same
// tokens; and what is asked of them.
struct Scorer::Plan {
  explicit Plan(std::span<const ScoredText> texts) {
    std::vector<int64_t> row_of;  // of each position of the current text
    std::span<const int32_t> before;
    for (const size_t text : sorted_order(texts)) {
      const auto inputs = inputs_of(texts[text]);
      row_of.resize(inputs.size());
      for (auto at = static_cast<size_t>(common_prefix(before, inputs)); at < inputs.size(); ++at) {
        row_of[at] = std::ssize(tokens);
        tokens.push_back(inputs[at]);
        positions.push_back(static_cast<int32_t>(at));
      }
      for (auto at = static_cast<size_t>(texts[text].scored); at <= inputs.size(); ++at) {
        requests.push_back({row_of[at - 1], texts[text].tokens[at], text});
      }
      before = inputs;
    }
    std::ranges::stable_sort(requests, {}, &Request::row);
  }

  int64_t rows() const { return std::ssize(tokens); }

  // Rows [first, first + count), divided where a text does not continue, and after `most` rows.
  std::vector<Segment> segments(int64_t first, int64_t count, int64_t most) const {
    std::vector<Segment> cut;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t position = positions[static_cast<size_t>(first + row)];
      const bool continues = !cut.empty() && position == cut.back().position + cut.back().count &&
                             cut.back().count < most;
      if (continues) {
        ++cut.back().count;
      } else {
        cut.push_back({row, 1, position});
      }
    }
    return cut;
  }

  std::span<const Request> requests_of(int64_t first, int64_t count) const {
    const auto begin = std::ranges::lower_bound(requests, first, {}, &Request::row);
    const auto end =
        std::ranges::lower_bound(begin, requests.end(), first + count, {}, &Request::row);
    return {begin, end};
  }

  std::vector<int32_t> tokens, positions;
  std::vector<Request> requests;  // ordered by row
};

Scorer::Scorer(const DecoderParts& parts, MakeGraph make)
    : vocabulary_(parts.model.vocab),
      context_(parts.context),
      max_tokens_(kTokensTogether),
      logit_rows_(std::clamp(kLogits / vocabulary_, int64_t{1}, kMaxLogitRows)),
      threads_(parts.threads),
      decoding_(make_decoding(parts, max_tokens_)),
      graph_(make(decoding_->ops(), parts.model, parts.params.layout(), Purpose::kDecoding)),
      logits_(static_cast<size_t>(logit_rows_ * vocabulary_)) {}

Scorer::~Scorer() = default;

void Scorer::check(std::span<const ScoredText> texts) const {
  for (const ScoredText& text : texts) {
    const auto size = std::ssize(text.tokens);
    if (text.scored < 1 || text.scored >= size) {
      throw Error(
          fmt::format("a text of {} tokens of which those from {} on are scored: expected "
                      "one before them and at least one of them",
                      size, text.scored));
    }
    if (size - 1 > context_) {
      throw Error(fmt::format("a text of {} tokens; with a context of {} it may have {}", size,
                              context_, context_ + 1));
    }
    check_tokens(text.tokens, vocabulary_);
  }
}

std::vector<Score> Scorer::score(std::span<const ScoredText> texts,
                                 const std::function<void(double)>& progress) {
  check(texts);
  const Plan plan(texts);
  std::vector<Score> scores(texts.size());
  for (int64_t first = 0; first < plan.rows(); first += max_tokens_) {
    if (progress) progress(static_cast<double>(first) / static_cast<double>(plan.rows()));
    compute(plan, first, std::min(max_tokens_, plan.rows() - first), scores);
  }
  return scores;
}

void Scorer::compute(const Plan& plan, int64_t first, int64_t count, std::span<Score> scores) {
  const auto tokens = std::span(plan.tokens).subspan(static_cast<size_t>(first));
  decoding_->begin_tokens(tokens.first(static_cast<size_t>(count)),
                          plan.segments(first, count, decoding_->chunk()));
  graph_->forward(false);
  std::span<const Request> left = plan.requests_of(first, count);
  while (!left.empty()) {  // as many rows as fit into the logits
    size_t end = 0;
    for (int64_t rows = 0, last = -1; end < left.size(); ++end) {
      rows += left[end].row != last ? 1 : 0;
      last = left[end].row;
      if (rows > logit_rows_) break;
    }
    answer(left.first(end), first, scores);
    left = left.subspan(end);
  }
}

void Scorer::answer(std::span<const Request> requests, int64_t first_row, std::span<Score> scores) {
  std::vector<int64_t> rows;                     // of the current pass, each once
  std::vector<std::span<const Request>> of_row;  // what is asked of each
  for (size_t begin = 0, end = 0; begin < requests.size(); begin = end) {
    const int64_t row = requests[begin].row;
    while (end < requests.size() && requests[end].row == row) ++end;
    rows.push_back(row - first_row);
    of_row.push_back(requests.subspan(begin, end - begin));
  }
  const Head head = graph_->head();
  decoding_->logits(head.x_NC, rows, head.weight,
                    std::span(logits_).first(rows.size() * static_cast<size_t>(vocabulary_)));
  std::vector<Score> answers(requests.size());  // of single tokens
  threads_.for_ranges(std::ssize(rows), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const std::span<const Request> asked = of_row[static_cast<size_t>(row)];
      const auto at = static_cast<size_t>(asked.data() - requests.data());
      answer_row(asked, logits_.data() + row * vocabulary_,
                 std::span(answers).subspan(at, asked.size()));
    }
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    scores[requests[i].text].log_likelihood += answers[i].log_likelihood;
    scores[requests[i].text].greedy &= answers[i].greedy;
  }
}

void Scorer::answer_row(std::span<const Request> asked, float* logits,
                        std::span<Score> answers) const {
  for (size_t i = 0; i < asked.size(); ++i) {
    const float value = logits[asked[i].target];
    int larger = 0;
    for (int64_t v = 0; v < vocabulary_; ++v) larger |= static_cast<int>(logits[v] > value);
    answers[i] = {value, larger == 0};
  }
  const int32_t target = asked.front().target;
  const double logit = logits[target];
  tensor::SoftmaxSum sum;
  const float loss =
      tensor::kernels<float>().cross_entropy(vocabulary_, logits, target, nullptr, &sum);
  for (Score& answer : answers) answer.log_likelihood -= logit + loss;  // the log of softmax's sum
}

}  // namespace thinwire::model
