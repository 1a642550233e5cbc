#include <algorithm>
#include <cmath>
#include <numbers>

#include "thinwire/tensor/kernels/attention.h"

namespace thinwire::tensor {
namespace {

constexpr double kRotation = 2 * std::numbers::pi;

// Only texts beyond the context change the base.
double dynamic_theta(const RopeSpec& rope, int64_t head_size, int64_t length) {
  const auto context = static_cast<double>(rope.context);
  const double longest = std::max(static_cast<double>(length), context);
  const double growth = rope.factor * longest / context - (rope.factor - 1);
  const auto d = static_cast<double>(head_size);
  return rope.theta * std::pow(growth, d / (d - 2));
}

double llama3(const RopeSpec& rope, double frequency) {
  const double rotations =
      static_cast<double>(rope.context) * frequency / kRotation;  // in the context
  if (rotations < rope.low_frequency) return frequency / rope.factor;
  if (rotations > rope.high_frequency) return frequency;
  const double kept = (rotations - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

// The pair that turns so often in the context, as a fraction.
double yarn_pair(const RopeSpec& rope, double head_size, double rotations) {
  return head_size * std::log(static_cast<double>(rope.context) / (rotations * kRotation)) /
         (2 * std::log(rope.theta));
}

// How much of each frequency is scaled: 0 up to the fast pair, 1 from the slow pair on.
class YarnRamp {
 public:
  YarnRamp(const RopeSpec& rope, double head_size)
      : first_(yarn_pair(rope, head_size, rope.beta_fast)),
        last_(yarn_pair(rope, head_size, rope.beta_slow)) {
    if (rope.truncate) {
      first_ = std::floor(first_);
      last_ = std::ceil(last_);
    }
    first_ = std::max(first_, 0.0);
    last_ = std::min(last_, head_size - 1);
    if (first_ == last_) last_ += 0.001;
  }
  double at(double pair) const { return std::clamp((pair - first_) / (last_ - first_), 0.0, 1.0); }

 private:
  double first_, last_;
};

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_size, int64_t length) {
  const double theta =
      rope.scaling == RopeScaling::kDynamic ? dynamic_theta(rope, head_size, length) : rope.theta;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    frequencies.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size)));
  }
  if (rope.scaling == RopeScaling::kLinear) {
    for (double& frequency : frequencies) frequency /= rope.factor;
  }
  if (rope.scaling == RopeScaling::kLlama3) {
    for (double& frequency : frequencies) frequency = llama3(rope, frequency);
  }
  if (rope.scaling == RopeScaling::kYarn) {
    const YarnRamp ramp(rope, static_cast<double>(head_size));
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double scaled = ramp.at(static_cast<double>(i));
      frequencies[i] *= scaled / rope.factor + (1 - scaled);
    }
  }
  return frequencies;
}

double rope_magnitude(const RopeSpec& rope) {
  if (rope.scaling != RopeScaling::kYarn) return 1;
  return rope.attention_factor > 0 ? rope.attention_factor : 0.1 * std::log(rope.factor) + 1;
}

RopeTable::RopeTable(int64_t positions, int64_t head_size, const RopeSpec& rope, int64_t length)
    : half_(head_size / 2), rope_(rope), length_(length) {
  const std::vector<double> frequencies = rope_frequencies(rope, head_size, length);
  const double magnitude = rope_magnitude(rope);
  cosine_.reserve(static_cast<size_t>(positions * half_));
  sine_.reserve(static_cast<size_t>(positions * half_));
  for (int64_t position = 0; position < positions; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      cosine_.push_back(static_cast<float>(magnitude * std::cos(angle)));
      sine_.push_back(static_cast<float>(magnitude * std::sin(angle)));
    }
  }
}

bool RopeTable::is_for(int64_t length) const {
  return rope_.scaling != RopeScaling::kDynamic ||
         std::max(length, rope_.context) == std::max(length_, rope_.context);
}

}  // namespace thinwire::tensor
