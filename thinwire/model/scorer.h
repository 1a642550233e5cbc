// Log-likelihoods of texts under a language model, many at a time. Texts with a common beginning
// share its computation: they are sorted by their tokens, so each computes only what differs from
// the one before it, and finds the keys and values of the rest in the cache (decode_ops.h). Logits
// are computed only for the predictions that are requested. fp32; computes on the calling thread
// and its pool, or on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/model/decoder.h"

namespace thinwire::model {

// A text of which the tokens from `scored` (>= 1) on are predicted, each from all before it.
struct ScoredText {
  std::span<const int32_t> tokens;
  int64_t scored = 1;
};

struct Score {
  double log_likelihood = 0;  // of the scored tokens together, in nats
  bool greedy = true;         // each of them is the likeliest one
};

class Scorer {
 public:
  // parts.context: the most tokens that a text may have before its last one. make: as for Decoder.
  Scorer(const DecoderParts& parts, MakeGraph make);
  ~Scorer();
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  // The score of each text, in their order. progress(fraction) is called between passes; what it
  // throws ends the call. Throws Error for a token outside the vocabulary, for a text that does not
  // fit into the context, and for one of which nothing is scored.
  std::vector<Score> score(std::span<const ScoredText> texts,
                           const std::function<void(double)>& progress = {});

 private:
  struct Plan;
  struct Request;

  void check(std::span<const ScoredText> texts) const;
  // Computes rows [first, first + count) of the plan, and what is requested of them.
  void compute(const Plan& plan, int64_t first, int64_t count, std::span<Score> scores);
  // Adds the answers to these requests, which are ordered by row.
  void answer(std::span<const Request> requests, int64_t first_row, std::span<Score> scores);
  // The answers to the requests for one row's logits, which are overwritten.
  void answer_row(std::span<const Request> asked, float* logits, std::span<Score> answers) const;

  const int64_t vocabulary_, context_, max_tokens_, logit_rows_;
  ThreadPool& threads_;
  std::unique_ptr<Decoding> decoding_;
  std::unique_ptr<Graph> graph_;
  std::vector<float> logits_;  // [logit_rows_, vocabulary]
};

}  // namespace thinwire::model
