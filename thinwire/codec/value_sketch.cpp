#include "thinwire/codec/value_sketch.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

constexpr uint64_t kSigns = 64;  // in one hash

}  // namespace

void ValueSketch::clear() { std::ranges::fill(sums_, 0.0); }

void ValueSketch::add(uint64_t first, std::span<const float> values) {
  for (size_t i = 0; i < values.size();) {
    const uint64_t element = first + i;
    const size_t end = std::min<size_t>(values.size(), i + (kSigns - element % kSigns));
    // Elements of a block of kSketchValues get sums of their own, in an order that is the block's.
    const uint64_t order = derive_seed(seed_, element / kSketchValues);
    uint64_t signs = derive_seed(~seed_, element / kSigns) >> element % kSigns;
    for (uint64_t place = element; i < end; ++i, ++place, signs >>= 1) {
      const uint32_t flipped =
          std::bit_cast<uint32_t>(values[i]) ^ static_cast<uint32_t>(signs << 31);
      sums_[(place ^ order) % kSketchValues] += static_cast<double>(std::bit_cast<float>(flipped));
    }
  }
}

std::vector<float> ValueSketch::direction() const {
  double squares = 0;
  for (const double sum : sums_) squares += sum * sum;
  if (squares == 0 || !std::isfinite(squares)) return {};
  const double length = std::sqrt(squares);
  std::vector<float> direction(sums_.size());
  std::ranges::transform(sums_, direction.begin(),
                         [&](double sum) { return static_cast<float>(sum / length); });
  return direction;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  assert(!a.empty() && a.size() == b.size());
  double product = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return std::clamp(product, -1.0, 1.0);
}

}  // namespace thinwire::codec
