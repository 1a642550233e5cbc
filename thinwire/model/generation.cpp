#include "thinwire/model/generation.h"

namespace thinwire::model {

int64_t generate_tokens(Decoder& decoder, Sampler& sampler, std::span<const int32_t> prompt,
                        const GenerationLimits& limits,
                        const std::function<bool(int32_t token)>& take) {
  std::span<const float> logits = decoder.prefill(prompt);
  int64_t made = 0;
  while (made < limits.tokens) {
    const int32_t token = sampler.next(logits.first(static_cast<size_t>(limits.vocabulary)));
    ++made;
    if (!take(token)) break;
    if (made < limits.tokens) logits = decoder.step(token);
  }
  return made;
}

}  // namespace thinwire::model
