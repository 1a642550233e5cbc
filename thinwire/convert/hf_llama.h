// config.json of Hugging Face's LlamaForCausalLM.
#pragma once

#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {

extern const HfArchitecture kHfLlama;

}  // namespace thinwire::convert
