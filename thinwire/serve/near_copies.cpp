#include "thinwire/serve/near_copies.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/codec/value_sketch.h"

namespace thinwire::serve {
namespace {

constexpr double kLeastCosine = 0.05;  // that a sketch can tell from 0
constexpr double kLeastNoise = 1e-6;   // that it can tell from none

}  // namespace

double noise_of_a_row(double cosine, double rows_a, double rows_b) {
  const double c = std::clamp(cosine, kLeastCosine, 1.0);
  // The positive root of s^2 / (rows_a rows_b) + s (1 / rows_a + 1 / rows_b) = 1 / c^2 - 1.
  const double excess = 1 / (c * c) - 1;
  const double sum = 1 / rows_a + 1 / rows_b;
  const double root = std::sqrt(sum * sum + 4 * excess / (rows_a * rows_b));
  return std::max(kLeastNoise, 2 * excess / (sum + root));
}

Resemblance::Resemblance(std::span<const Compared> all, size_t own) : all_(all), own_(own) {
  for (const Compared& other : all) {
    cosines_.push_back(codec::cosine(all[own].direction, other.direction));
  }
}

bool Resemblance::is_near_copy(size_t other) const {
  if (cosines_[other] <= kNearCosine || !stands_out(other, true) || !stands_out(other, false)) {
    return false;
  }
  const Resemblance others(all_, other);
  return others.stands_out(own_, true) && others.stands_out(own_, false);
}

bool Resemblance::stands_out(size_t other, bool by_rows) const {
  const auto noise = [&](size_t i) {
    const double own_rows = by_rows ? all_[own_].rows : 1;
    return std::log(noise_of_a_row(cosines_[i], own_rows, by_rows ? all_[i].rows : 1));
  };
  std::vector<double> logs;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (i != own_) logs.push_back(noise(i));
  }
  const TypicalRange typical = typical_range(std::move(logs), kNoiseRatio, kNoiseSpreads);
  return typical.middle - noise(other) > typical.limit;
}

}  // namespace thinwire::serve
