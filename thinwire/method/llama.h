// Facts of the Llama architecture (Touvron et al. 2023, arXiv 2302.13971): blocks of RMSNorm,
// causal attention with rotary positions and grouped queries, RMSNorm and SwiGLU. The passes over
// it are in model/llama.h.
#pragma once

#include "thinwire/method/architecture.h"

namespace thinwire::method {

extern const Architecture kLlama;

}  // namespace thinwire::method
