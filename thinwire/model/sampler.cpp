#include "thinwire/model/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::model {
namespace {

// Likelier first; among equals the lower token.
bool likelier(const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void check(std::span<const float> logits) {
  bool any_finite = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == std::numeric_limits<float>::infinity()) {
      throw Error(fmt::format("a logit is {}: the model's weights are damaged", logit));
    }
    any_finite = any_finite || std::isfinite(logit);
  }
  if (!any_finite) throw Error("no logit is finite: the model's weights are damaged");
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options), rng_(options.seed, 0) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw UsageError(fmt::format("temperature must be >= 0, got {}", options.temperature));
  }
  if (options.top_k < 0) throw UsageError(fmt::format("top-k must be >= 0, got {}", options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw UsageError(fmt::format("top-p must be above 0 and at most 1, got {}", options.top_p));
  }
}

int32_t Sampler::next(std::span<const float> logits) {
  check(logits);
  if (options_.temperature == 0) return likeliest(logits);

  // Candidates by decreasing probability, relative to the likeliest's.
  const double largest = logits[static_cast<size_t>(likeliest(logits))];
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp((logits[i] - largest) / options_.temperature);
    candidates_.emplace_back(static_cast<float>(p), static_cast<int32_t>(i));
  }
  std::sort(candidates_.begin(), candidates_.end(), likelier);
  if (options_.top_k > 0 && options_.top_k < static_cast<int64_t>(candidates_.size())) {
    candidates_.resize(static_cast<size_t>(options_.top_k));
  }

  double total = 0;
  for (const auto& candidate : candidates_) total += candidate.first;
  if (options_.top_p < 1) {
    const double wanted = options_.top_p * total;
    size_t kept = 0;
    for (total = 0; kept < candidates_.size() && total < wanted; ++kept) {
      total += candidates_[kept].first;
    }
    candidates_.resize(std::max<size_t>(kept, 1));
  }

  double left = rng_.uniform() * total;
  for (const auto& [p, token] : candidates_) {
    left -= p;
    if (left < 0) return token;
  }
  return candidates_.front().second;
}

int64_t generate_tokens(Decoder& decoder, Sampler& sampler, std::span<const int32_t> prompt,
                        const GenerationLimits& limits,
                        const std::function<bool(int32_t token)>& take) {
  std::span<const float> logits = decoder.prefill(prompt);
  int64_t made = 0;
  while (made < limits.tokens) {
    const int32_t token = sampler.next(logits.first(static_cast<size_t>(limits.vocabulary)));
    ++made;
    if (!take(token)) break;
    if (made < limits.tokens) logits = decoder.step(token);
  }
  return made;
}

}  // namespace thinwire::model
