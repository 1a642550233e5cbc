// config.json of Hugging Face's Olmo2ForCausalLM (OLMo Team 2024, arXiv 2501.00656): a Llama that
// norms what its branches add instead of what they read, and all queries and keys of a token.
#pragma once

#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {

extern const HfArchitecture kHfOlmo2;

}  // namespace thinwire::convert
