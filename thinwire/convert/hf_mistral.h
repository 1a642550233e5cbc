// config.json of Hugging Face's MistralForCausalLM (Jiang et al. 2023, arXiv 2310.06825): a Llama
// whose attention may see a sliding window only.
#pragma once

#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {

extern const HfArchitecture kHfMistral;

}  // namespace thinwire::convert
