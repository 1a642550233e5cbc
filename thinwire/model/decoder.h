// Generates from a language model one token at a time, keeping what it needs of the tokens seen.
// fp32; computes on the calling thread and its pool. One sequence at a time.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/arena.h"

namespace thinwire::model {

// What a decoder is made of. params and threads outlive it.
struct DecoderParts {
  const config::ModelSection& model;
  const tensor::Arena& params;  // laid out as method::tensors_of(model) says
  ThreadPool& threads;
  int64_t context;  // the largest number of tokens the sequence may have
};

class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Appends tokens and returns the logits of the token that follows the last one, valid until the
  // next call. Throws Error when the context is full, when `tokens` is empty, and for a token
  // outside the vocabulary; the sequence is then as it was before.
  virtual std::span<const float> prefill(std::span<const int32_t> tokens) = 0;
  std::span<const float> step(int32_t token) { return prefill({&token, 1}); }

  virtual int64_t position() const = 0;  // tokens seen
  virtual int64_t context() const = 0;
  virtual void reset() = 0;  // forgets the sequence
};

}  // namespace thinwire::model
