// Facts of the Llama architecture (Touvron et al. 2023, arXiv 2302.13971) and of the families that
// differ from it in options of its table: blocks of RMSNorm, causal attention with rotary positions
// and grouped queries, RMSNorm and SwiGLU. The passes over it are in llama.cpp, the families in
// llama_hf.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/rope.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {

// What one RMSNorm of queries and keys covers; it is applied before they are rotated.
enum class QkNorm : uint8_t {
  kNone,
  kHead,  // each head by itself, all with the same weight (Qwen3)
  kAll,   // all heads of a token together (OLMo 2)
};

// Where a block's two norms are.
enum class NormPlace : uint8_t {
  kBefore,  // x + branch(norm(x))
  kAfter,   // x + norm(branch(x)) (OLMo 2)
};

inline std::span<const std::string_view> names_of(QkNorm) {
  static constexpr std::array<std::string_view, 3> kNames = {"none", "head", "all"};
  return kNames;
}
inline std::span<const std::string_view> names_of(NormPlace) {
  static constexpr std::array<std::string_view, 2> kNames = {"before", "after"};
  return kNames;
}

// The table [llama].
struct LlamaOptions final : ArchitectureSectionOf<LlamaOptions> {
  int64_t kv_heads = 0;      // 0: as many as heads
  int64_t intermediate = 0;  // 0: 8/3 of hidden, rounded up to a multiple of 64
  RopeSpec rope;
  double norm_eps = 1e-5;
  int64_t head_dim = 0;  // 0: hidden / heads
  bool qkv_bias = false;
  bool out_bias = false;  // of attention's last product
  bool mlp_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  NormPlace norm_place = NormPlace::kBefore;
  int64_t window = 0;       // positions that attention sees; 0: all
  int64_t full_layers = 0;  // first blocks, to which the window does not apply

  void describe(config::Fields& fields) override;
  void fill_derived(const config::Recipe& recipe) override;

  // The window of block `layer`; 0: all positions.
  int64_t window_of(int64_t layer) const { return layer < full_layers ? 0 : window; }
};

// The shape of a model's attention, whose options need not be resolved.
struct LlamaHeads {
  explicit LlamaHeads(const ModelSpec& model);

  int64_t heads, kv_heads;
  int64_t size;                                   // of a head
  int64_t width() const { return heads * size; }  // of all queries
  int64_t keys_width() const { return kv_heads * size; }
};

// Throws UsageError if the model's fields contradict each other.
void check_llama(const ModelSpec& model);

// What a pass keeps in memory on the CPU.
PassMemory llama_memory(const ModelSpec& model, const PassShape& pass);

extern const Architecture kLlama;

}  // namespace thinwire::method
