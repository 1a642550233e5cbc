// Generates from a Llama model one token at a time, keeping the keys and values of the tokens seen.
// fp32; computes on the calling thread and its pool. One sequence at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/model_section.h"
#include "thinwire/tensor/arena.h"

namespace thinwire::model {

class Decoder {
 public:
  // `context` is the largest number of tokens the sequence may have. The layout is
  // config::llama_tensors(model); params and threads outlive the decoder.
  Decoder(const config::ModelSection& model, const tensor::Arena& params, ThreadPool& threads,
          int64_t context);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // What such a decoder will allocate beside the parameters.
  static std::vector<MemoryPart> memory(const config::ModelSection& model, int64_t context,
                                        int threads);

  // Appends tokens and returns the logits of the token that follows the last one, valid until the
  // next call. Throws Error when the context is full, when `tokens` is empty, and for a token
  // outside the vocabulary; the sequence is then as it was before.
  std::span<const float> prefill(std::span<const int32_t> tokens);
  std::span<const float> step(int32_t token) { return prefill({&token, 1}); }

  int64_t position() const;  // tokens seen
  int64_t context() const;
  void reset();  // forgets the sequence

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::model
