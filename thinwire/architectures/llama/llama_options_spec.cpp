// The table [llama]: its fields and what contradicts each other.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"

namespace thinwire::method {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;

template <typename... Values>
void require(bool holds, fmt::format_string<Values...> message, Values&&... values) {
  if (!holds) throw UsageError(fmt::format(message, std::forward<Values>(values)...));
}

void check_heads(const ModelSpec& model) {
  const auto& options = model.options<LlamaOptions>();
  require(model.heads >= 1 && (options.head_dim > 0 || model.hidden % model.heads == 0),
          "[model] hidden must be a multiple of heads, got hidden {} and heads {}", model.hidden,
          model.heads);
  const LlamaHeads shape(model);
  require(shape.kv_heads >= 1 && model.heads % shape.kv_heads == 0,
          "[model] heads must be a multiple of [{}] kv_heads, got heads {} and kv_heads {}",
          model.architecture, model.heads, shape.kv_heads);
  if (options.head_dim > 0) {
    require(shape.size % 2 == 0,
            "[{}] head_dim must be even, because the rotary embedding rotates pairs, got {}",
            model.architecture, shape.size);
  }
  require(shape.size % 2 == 0,
          "[model] hidden / heads must be even, because the rotary embedding rotates pairs, got {} "
          "/ {} = {}",
          model.hidden, model.heads, shape.size);
}

void check_window(const ModelSpec& model) {
  const auto& options = model.options<LlamaOptions>();
  require(options.window > 0 || options.full_layers == 0,
          "[{}] full_layers = {} needs window >= 1, got 0: without a window every block attends to "
          "all positions",
          model.architecture, options.full_layers);
}

void check_rope(const ModelSpec& model) {
  const RopeSpec& rope = model.options<LlamaOptions>().rope;
  const std::string_view table = model.architecture;
  const std::string_view scaling = name_of(rope.scaling);
  if (rope.scaling == RopeScaling::kNone) {
    require(rope.factor == 1, "[{}] rope_factor = {} needs rope_scaling, got \"none\"", table,
            rope.factor);
    return;
  }
  require(rope.scaling == RopeScaling::kLinear || rope.context >= 1,
          "[{}] rope_scaling = \"{}\" needs rope_context >= 1, got {}", table, scaling,
          rope.context);
  require(rope.scaling != RopeScaling::kDynamic || LlamaHeads(model).size > 2,
          "[{}] rope_scaling = \"dynamic\" needs heads wider than 2", table);
  require(rope.scaling != RopeScaling::kLlama3 || rope.high_frequency > rope.low_frequency,
          "[{}] rope_high_frequency must be > rope_low_frequency, got {} and {}", table,
          rope.high_frequency, rope.low_frequency);
  require(rope.scaling != RopeScaling::kYarn || rope.beta_fast > rope.beta_slow,
          "[{}] rope_beta_fast must be > rope_beta_slow, got {} and {}", table, rope.beta_fast,
          rope.beta_slow);
}

void describe_rope(config::Fields& fields, RopeSpec& rope) {
  fields.choice(
      "rope_scaling", rope.scaling,
      "How rotary positions are extended beyond the training context, by Hugging Face's names.");
  fields.number("rope_factor", rope.factor, "", 1, kMaxRopeFactor,
                "How many times longer the scaled context is; 1 without scaling.");
  fields.integer("rope_context", rope.context, "tokens", 0, kMaxPositions,
                 "Context before scaling, for dynamic, llama3 and yarn.");
  fields.number_above(
      "rope_low_frequency", rope.low_frequency, "", 0, config::kInfinity,
      "llama3: pairs that rotate less often than this over the context are scaled fully.");
  fields.number_above(
      "rope_high_frequency", rope.high_frequency, "", 0, config::kInfinity,
      "llama3: pairs that rotate more often than this over the context are not scaled.");
  fields.number_above(
      "rope_beta_fast", rope.beta_fast, "", 0, config::kInfinity,
      "yarn: pairs that rotate more often than this over the context are not scaled.");
  fields.number_above(
      "rope_beta_slow", rope.beta_slow, "", 0, config::kInfinity,
      "yarn: pairs that rotate less often than this over the context are scaled fully.");
  fields.flag("rope_truncate", rope.truncate,
              "yarn: round the bounds that follow from rope_beta_fast and rope_beta_slow to whole "
              "pairs.");
  fields.number("rope_attention_factor", rope.attention_factor, "", 0, kMaxRopeFactor,
                "yarn: factor for the queries and for the keys; 0 means 0.1 ln(rope_factor) + 1.");
}

}  // namespace

LlamaHeads::LlamaHeads(const ModelSpec& model)
    : heads(model.heads),
      kv_heads(model.options<LlamaOptions>().kv_heads),
      size(model.options<LlamaOptions>().head_dim) {
  if (kv_heads == 0) kv_heads = heads;
  if (size == 0) size = model.hidden / heads;
}

void LlamaOptions::describe(config::Fields& fields) {
  fields.integer("kv_heads", kv_heads, "", 0, 1 << 16,
                 "Key and value heads of grouped-query attention; 0 means as many as heads.");
  fields.integer("intermediate", intermediate, "", 0, 1 << 22,
                 "Width of the SwiGLU layer; 0 means 8/3 of hidden, rounded up to a multiple of "
                 "64.");
  fields.number_above("rope_theta", rope.theta, "", 1, config::kInfinity,
                      "Base of the wavelengths of the rotary position embedding.");
  fields.number_above("norm_eps", norm_eps, "", 0, 1,
                      "Added to the mean square in RMSNorm, so that it never divides by zero.");
  fields.integer("head_dim", head_dim, "", 0, 1 << 16,
                 "Width of an attention head; 0 means hidden / heads.");
  fields.flag("qkv_bias", qkv_bias, "Biases on queries, keys and values (Qwen2).");
  fields.flag("out_bias", out_bias, "A bias on attention's output projection.");
  fields.flag("mlp_bias", mlp_bias, "Biases on the three products of the SwiGLU layer.");
  fields.choice("qk_norm", qk_norm,
                "RMSNorm of queries and keys before rotation: of each head (Qwen3) or of all heads "
                "of a token together (OLMo 2).");
  fields.choice("norm_place", norm_place,
                "Whether a block's norms come before attention and SwiGLU layer, on their inputs, "
                "or after them, on their outputs (OLMo 2).");
  fields.integer("window", window, "tokens", 0, kMaxPositions,
                 "How many positions attention sees, its own included (Mistral); 0 means all.");
  fields.integer(
      "full_layers", full_layers, "", 0, 10'000,
      "Number of first blocks whose attention sees all positions, whatever window says.");
  describe_rope(fields, rope);
}

void LlamaOptions::fill_derived(const config::Recipe& recipe) {
  if (kv_heads == 0) kv_heads = recipe.model.heads;
  if (intermediate == 0) intermediate = (recipe.model.hidden * 8 / 3 + 63) / 64 * 64;
}

void check_llama(const ModelSpec& model) {
  require(model.hidden >= 1, "[model] hidden must be >= 1, got {}", model.hidden);
  require(model.layers >= 1, "[model] layers must be >= 1, got {}", model.layers);
  check_heads(model);
  check_window(model);
  check_rope(model);
}

}  // namespace thinwire::method
