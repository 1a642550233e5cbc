// Generates text from a language model one token at a time, caching what it needs of earlier
// tokens. fp32; computes on the calling thread and its pool, or on a device. One sequence at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/model/decoding.h"
#include "thinwire/model/graph_model.h"

namespace thinwire::model {

class Decoder {
 public:
  // make: makes the graph of the model's architecture. Throws Error for an empty context.
  Decoder(const DecoderParts& parts, MakeGraph make);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Appends tokens and returns the logits of the token that follows the last one, valid until the
  // next call. Throws Error when the context is full, when `tokens` is empty, and for a token
  // outside the vocabulary; the sequence is then as it was before.
  std::span<const float> prefill(std::span<const int32_t> tokens);
  // The same, and calls take(logits) for each of the tokens, in order, with the logits of the token
  // after it. The logits are valid until `take` returns.
  void prefill_each(std::span<const int32_t> tokens,
                    const std::function<void(std::span<const float> logits)>& take);
  std::span<const float> step(int32_t token) { return prefill({&token, 1}); }

  int64_t position() const { return position_; }  // tokens seen
  int64_t context() const { return context_; }
  void reset() { rewind(0); }  // forgets the sequence
  // Forgets all tokens from this position on, which is at most position().
  void rewind(int64_t position);

 private:
  // Appends tokens a chunk at a time; after each calls done(number of its tokens).
  void append(std::span<const int32_t> tokens, const std::function<void(int64_t rows)>& done);
  // The logits of a row of the last chunk, into logits_.
  void compute_logits(int64_t row);

  const int64_t vocabulary_, context_;
  std::unique_ptr<Decoding> decoding_;
  std::unique_ptr<Graph> graph_;
  std::vector<float> logits_;
  int64_t position_ = 0;
};

}  // namespace thinwire::model
