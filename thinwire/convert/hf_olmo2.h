// config.json of Hugging Face's Olmo2ForCausalLM (OLMo Team 2024, arXiv 2501.00656): a Llama that
// normalizes the outputs of its branches instead of their inputs, and all queries and keys of a
// token together.
#pragma once

#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {

extern const HfArchitecture kHfOlmo2;

}  // namespace thinwire::convert
