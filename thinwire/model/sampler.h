// Chooses the next token from logits: greedily, or at random with temperature, top-k and top-p
// (nucleus sampling, Holtzman et al. 2020, arXiv 1904.09751).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/model/decoder.h"

namespace thinwire::model {

struct SamplerOptions {
  double temperature = 1.0;  // 0: greedy
  int64_t top_k = 0;         // only the k likeliest; 0: all
  double top_p = 1.0;        // only the smallest set of likeliest tokens with this probability
  uint64_t seed = 1;
};

class Sampler {
 public:
  // Throws UsageError for values out of range: temperature >= 0, top_k >= 0, 0 < top_p <= 1.
  explicit Sampler(const SamplerOptions& options);

  // Ties go to the lowest token. Throws Error when a logit is NaN or +infinity or none is finite.
  int32_t next(std::span<const float> logits);

 private:
  SamplerOptions options_;
  Rng rng_;
  std::vector<std::pair<float, int32_t>> candidates_;
};

// Continues a sequence of tokens with a model, token by token.
struct GenerationLimits {
  int64_t tokens = 0;      // at most as many are added
  int64_t vocabulary = 0;  // the first so many: rows of the embedding beyond are padding
};

// Appends the prompt to the decoder's sequence, then tokens that the sampler chooses. Each is given
// to take(token), which says whether to go on. Returns how many were chosen. Throws Error as
// Decoder::prefill and Sampler::next do.
int64_t generate_tokens(Decoder& decoder, Sampler& sampler, std::span<const int32_t> prompt,
                        const GenerationLimits& limits,
                        const std::function<bool(int32_t token)>& take);

}  // namespace thinwire::model
