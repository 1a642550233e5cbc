#include "thinwire/train/pair_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// -log sigmoid(x)
double softplus_of_minus(double x) {
  return std::max(-x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

struct Slope {
  double loss = 0;
  double slope = 0;  // its derivative with respect to h
};

Slope loss_at(const config::PreferenceSection& preference, double h) {
  const double beta = preference.beta;
  if (preference.loss == config::PreferenceLoss::kIpo) {
    const double distance = h - 1 / (2 * beta);
    return {distance * distance, 2 * distance};
  }
  const double wrong = preference.label_smoothing, right = 1 - wrong, z = beta * h;
  return {right * softplus_of_minus(z) + wrong * softplus_of_minus(-z),
          beta * (wrong * sigmoid(z) - right * sigmoid(-z))};
}

double count_weighed(const model::Batch& batch, const model::Document& document) {
  const float* const weights = batch.weights() + document.first;
  const auto counted =
      std::count_if(weights, weights + document.count, [](float weight) { return weight != 0; });
  return static_cast<double>(counted);
}

}  // namespace

size_t pairs_in(std::span<const uint8_t> begins, int64_t sequence) {
  size_t pairs = 0;
  for (; !begins.empty(); begins = begins.subspan(static_cast<size_t>(sequence))) {
    const auto later = begins.first(static_cast<size_t>(sequence)).subspan(1);
    const auto documents =
        1 + std::ranges::count_if(later, [](uint8_t begin) { return begin != 0; });
    pairs += static_cast<size_t>(documents / 2);
  }
  return pairs;
}

double PairLoss::form(const model::Batch& batch, std::span<const double> losses,
                      std::span<float> factors) {
  const bool per_token = preference_.loss == config::PreferenceLoss::kIpo;
  double sum = 0;
  std::ranges::fill(factors, 0.0F);
  for_each_pair(batch, [&](size_t chosen, size_t rejected) {
    if (next_ == reference_.size()) {
      throw Error(fmt::format("a pass over more than {} pairs of answers", reference_.size()));
    }
    const PairLikelihoods& reference = reference_[next_++];
    const auto length = [&](size_t document) {
      return per_token ? count_weighed(batch, batch.documents()[document]) : 1.0;
    };
    const double of_chosen = length(chosen), of_rejected = length(rejected);
    const double chosen_gain = (-losses[chosen] - reference.chosen) / of_chosen;
    const double rejected_gain = (-losses[rejected] - reference.rejected) / of_rejected;
    const Slope at = loss_at(preference_, chosen_gain - rejected_gain);
    factors[chosen] = static_cast<float>(-at.slope / of_chosen);
    factors[rejected] = static_cast<float>(at.slope / of_rejected);
    sum += at.loss;
    sums_.add({1, chosen_gain > rejected_gain ? 1 : 0, preference_.beta * chosen_gain,
               preference_.beta * rejected_gain});
  });
  return sum;
}

double PairScores::form(const model::Batch& batch, std::span<const double> losses,
                        std::span<float> factors) {
  std::ranges::fill(factors, 0.0F);
  for_each_pair(batch, [&](size_t chosen, size_t rejected) {
    scores.push_back({-losses[chosen], -losses[rejected]});
  });
  return 0;
}

}  // namespace thinwire::train
