#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "thinwire/architectures/llama/llama_hf.h"
#include "thinwire/base/names.h"

namespace thinwire::convert {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr const char* kOriginal = "original_max_position_embeddings";

// The factor of queries and keys that a context `factor` times longer calls for.
double yarn_magnitude(double factor, double scale) { return 0.1 * scale * std::log(factor) + 1; }

// DeepSeek's way of giving attention_factor.
double read_attention_factor(const HfFields& rope, double factor) {
  const double scale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  const double derived =
      scale > 0 && all > 0 ? yarn_magnitude(factor, scale) / yarn_magnitude(factor, all) : 0;
  const bool named = rope.find("attention_factor") != nullptr;
  const double used = named ? rope.number("attention_factor", 0) : derived;
  if (used > kMaxRopeFactor || (named && used <= 0)) {
    rope.refuse("{} of yarn must be > 0 and <= {}, got {}",
                named ? "attention_factor" : "what mscale and mscale_all_dim give", kMaxRopeFactor,
                used);
  }
  return used;
}

double read_factor(const HfFields& rope) {
  const double factor = rope.number("factor", 0);
  if (factor < 1 || factor > kMaxRopeFactor) {
    rope.refuse("factor of scaled rotary positions must be >= 1 and <= {}, got {}", kMaxRopeFactor,
                rope.find("factor") == nullptr ? "none" : fmt::format("{}", factor));
  }
  return factor;
}

int64_t read_context(const HfFields& config, const HfFields& rope, int64_t positions) {
  const auto inside = rope.find_count(kOriginal, kMaxPositions);
  return config.find_count(kOriginal, kMaxPositions).value_or(inside.value_or(positions));
}

void read_llama3(const HfFields& rope, RopeSpec& spec) {
  for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
    if (rope.find(key) == nullptr) rope.refuse("{} of llama3 is missing", key);
  }
  spec.low_frequency = rope.number("low_freq_factor", 0);
  spec.high_frequency = rope.number("high_freq_factor", 0);
  if (spec.low_frequency <= 0 || spec.high_frequency <= spec.low_frequency) {
    rope.refuse("high_freq_factor must be > low_freq_factor > 0, got {} and {}",
                spec.high_frequency, spec.low_frequency);
  }
}

// transformers treats 0 as absent.
double read_beta(const HfFields& rope, const char* key, double absent) {
  const double beta = rope.number(key, absent);
  if (beta < 0) rope.refuse("{} of yarn must be > 0, got {}", key, beta);
  return beta == 0 ? absent : beta;
}

void read_yarn(const HfFields& rope, RopeSpec& spec) {
  spec.beta_fast = read_beta(rope, "beta_fast", spec.beta_fast);
  spec.beta_slow = read_beta(rope, "beta_slow", spec.beta_slow);
  if (spec.beta_fast <= spec.beta_slow) {
    rope.refuse("beta_fast of yarn must be > beta_slow, got {} and {}", spec.beta_fast,
                spec.beta_slow);
  }
  spec.truncate = rope.find("truncate") == nullptr || rope.flag("truncate");
  spec.attention_factor = read_attention_factor(rope, spec.factor);
}

RopeScaling read_type(const HfFields& rope) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return RopeScaling::kNone;
  const auto scaling = value_named<RopeScaling>(type);
  if (!scaling || scaling == RopeScaling::kNone) {
    rope.refuse(
        "rope_type is \"{}\"; only \"default\", \"linear\", \"dynamic\", \"llama3\" and "
        "\"yarn\" are supported",
        type);
  }
  return *scaling;
}

// What one of the two objects says.
RopeSpec read_object(const HfFields& config, const HfFields& rope, double theta,
                     int64_t positions) {
  RopeSpec spec;
  spec.scaling = read_type(rope);
  spec.theta = rope.number("rope_theta", theta);
  if (config.find("rope_theta") != nullptr && spec.theta != theta) {
    config.refuse("rope_theta is {} beside and {} within the scaling of rotary positions", theta,
                  spec.theta);
  }
  if (rope.number("partial_rotary_factor", 1) != 1) {
    rope.refuse("partial_rotary_factor must be 1, got {}", rope.number("partial_rotary_factor", 1));
  }
  if (spec.scaling != RopeScaling::kNone) spec.factor = read_factor(rope);
  if (spec.scaling == RopeScaling::kDynamic) spec.context = positions;
  if (spec.scaling == RopeScaling::kLlama3 || spec.scaling == RopeScaling::kYarn) {
    spec.context = read_context(config, rope, positions);
  }
  if (spec.scaling == RopeScaling::kLlama3) read_llama3(rope, spec);
  if (spec.scaling == RopeScaling::kYarn) read_yarn(rope, spec);
  rope.refuse_others({});
  return spec;
}

}  // namespace

RopeSpec read_rope(const HfFields& config, int64_t positions) {
  if (config.number("partial_rotary_factor", 1) != 1) {
    config.refuse("partial_rotary_factor must be 1, got {}",
                  config.number("partial_rotary_factor", 1));
  }
  RopeSpec spec;
  spec.theta = config.number("rope_theta", spec.theta);
  const double theta = spec.theta;
  bool found = false;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<HfFields> rope = config.object(key);
    if (!rope || config.find(key)->empty()) continue;
    const RopeSpec one = read_object(config, *rope, theta, positions);
    if (found && one != spec) {
      config.refuse("rope_scaling and rope_parameters contradict each other");
    }
    spec = one;
    found = true;
  }
  return spec;
}

void print_rope(const RopeSpec& rope, HfJson& json) {
  const std::string type =
      rope.scaling == RopeScaling::kNone ? "default" : std::string(name_of(rope.scaling));
  HfJson scaling = {{"rope_type", type}};
  if (rope.scaling != RopeScaling::kNone) scaling["factor"] = rope.factor;
  if (rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kYarn) {
    scaling[kOriginal] = rope.context;
  }
  if (rope.scaling == RopeScaling::kLlama3) {
    scaling["low_freq_factor"] = rope.low_frequency;
    scaling["high_freq_factor"] = rope.high_frequency;
  }
  if (rope.scaling == RopeScaling::kYarn) {
    scaling["beta_fast"] = rope.beta_fast;
    scaling["beta_slow"] = rope.beta_slow;
    scaling["truncate"] = rope.truncate;
    if (rope.attention_factor > 0) scaling["attention_factor"] = rope.attention_factor;
  }
  json["rope_theta"] = rope.theta;                                         // 4.x
  if (rope.scaling != RopeScaling::kNone) json["rope_scaling"] = scaling;  // 4.x
  scaling["rope_theta"] = rope.theta;
  json["rope_parameters"] = std::move(scaling);  // 5.x
}

}  // namespace thinwire::convert
