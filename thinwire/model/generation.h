// Continues a sequence of tokens with a model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "thinwire/model/decoder.h"
#include "thinwire/model/sampler.h"

namespace thinwire::model {

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
