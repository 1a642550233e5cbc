// Facts of the Llama architecture (Touvron et al. 2023, arXiv 2302.13971): blocks of RMSNorm,
// causal attention with rotary positions and grouped queries, RMSNorm and SwiGLU. The passes over
// it are in model/llama.h.
#pragma once

#include "thinwire/method/architecture.h"

namespace thinwire::method {

// The table [llama].
struct LlamaOptions final : ArchitectureSectionOf<LlamaOptions> {
  int64_t kv_heads = 0;      // 0: as many as heads
  int64_t intermediate = 0;  // 0: 8/3 of hidden, rounded up to a multiple of 64
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  void describe(config::Fields& fields) override;
  void fill_derived(const config::Recipe& recipe) override;
};

extern const Architecture kLlama;

}  // namespace thinwire::method
