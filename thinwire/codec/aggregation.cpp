#include "thinwire/codec/aggregation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/names.h"

namespace thinwire::codec {
namespace {

constexpr const AggregationRule* kRules[] = {&kNormClipping, &kTrimmedMean, &kMajorityVote};

const AggregationRule& find_rule(Aggregate name) {
  const auto* const found = std::ranges::find(kRules, name, &AggregationRule::name);
  if (found == std::end(kRules)) {
    throw Error(fmt::format("aggregate = \"{}\" has no rule of its own", name_of(name)));
  }
  return **found;
}

}  // namespace

double Magnitude::norm() const { return std::sqrt(squares); }

double Magnitude::rms() const {
  return values == 0 ? 0 : std::sqrt(squares / static_cast<double>(values));
}

bool Magnitude::finite() const { return std::isfinite(squares); }

void measure(std::span<const float> values, Magnitude& magnitude) {
  double squares = magnitude.squares;
  int64_t sent = magnitude.values;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
    sent += value != 0 ? 1 : 0;
  }
  magnitude = {squares, sent};
}

std::span<const AggregationRule* const> all_aggregation_rules() { return kRules; }

Aggregation::Aggregation(const AggregateOptions& options, std::span<const float> weights,
                         std::span<const Magnitude> magnitudes)
    : rule_(find_rule(options.rule)) {
  assert(!weights.empty() && weights.size() == magnitudes.size());
  double all = 0;
  for (const float weight : weights) all += weight;
  for (const float weight : weights) {
    terms_.weights.push_back(static_cast<float>(weight / all));
  }
  rule_.prepare(options, magnitudes, terms_);
}

}  // namespace thinwire::codec
