// config.json of Hugging Face's LlamaForCausalLM.
#pragma once

#include "thinwire/train/hf_architectures.h"

namespace thinwire::train {

extern const HfArchitecture kHfLlama;

}  // namespace thinwire::train
