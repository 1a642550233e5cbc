// Generates from a language model one token at a time, keeping what it needs of the tokens seen.
// fp32; computes on the calling thread and its pool. One sequence at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/method/model_spec.h"
#include "thinwire/model/graph.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

class DecodeOps;

// What a decoder is made of. params and threads outlive it.
struct DecoderParts {
  const method::ModelSpec& model;
  const tensor::Arena& params;  // laid out as method::tensors_of(model) says
  ThreadPool& threads;
  int64_t context;  // the largest number of tokens the sequence may have
};

class Decoder {
 public:
  // make: of the model's architecture. Throws Error for a context of no token.
  Decoder(const DecoderParts& parts, MakeGraph make);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Appends tokens and returns the logits of the token that follows the last one, valid until the
  // next call. Throws Error when the context is full, when `tokens` is empty, and for a token
  // outside the vocabulary; the sequence is then as it was before.
  std::span<const float> prefill(std::span<const int32_t> tokens);
  std::span<const float> step(int32_t token) { return prefill({&token, 1}); }

  int64_t position() const { return position_; }  // tokens seen
  int64_t context() const { return context_; }
  void reset() { position_ = 0; }  // forgets the sequence

 private:
  const int64_t vocabulary_, context_;
  std::unique_ptr<DecodeOps> ops_;
  std::unique_ptr<Graph> graph_;
  std::vector<float> logits_;
  int64_t position_ = 0;
};

}  // namespace thinwire::model
