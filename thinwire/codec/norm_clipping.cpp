#include <algorithm>

#include "thinwire/base/maths.h"
#include "thinwire/base/simd.h"
#include "thinwire/codec/aggregation.h"

namespace thinwire::codec {
namespace {

THINWIRE_CLONES void add_scaled(const float* __restrict values, size_t count, float weight,
                                float* __restrict sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += weight * values[i];
}

// The median norm over the member's own, where that is less than 1.
void prepare(const AggregateOptions&, std::span<const Magnitude> magnitudes,
             AggregationTerms& terms) {
  std::vector<double> norms;
  for (const Magnitude& one : magnitudes) norms.push_back(one.norm());
  const double limit = median_of(norms);
  for (const double norm : norms) {
    terms.factors.push_back(norm > limit ? static_cast<float>(limit / norm) : 1.0f);
  }
}

void combine(const AggregationTerms& terms, const AggregationPiece& piece, float* out) {
  std::fill_n(out, piece.count, 0.0f);
  for (size_t m = 0; m < piece.values.size(); ++m) {
    add_scaled(piece.values[m], piece.count, terms.weights[m] * terms.factors[m], out);
  }
  if (!piece.of_senders) return;
  for (size_t i = 0; i < piece.count; ++i) {
    float sent = 0;
    for (size_t m = 0; m < piece.values.size(); ++m) {
      if (piece.values[m][i] != 0) sent += terms.weights[m];
    }
    if (sent > 0) out[i] /= sent;
  }
}

}  // namespace

const AggregationRule kNormClipping = {
    .name = Aggregate::kNormClipping,
    .sentence = "the mean, after norms above the median norm are scaled down to it",
    .prepare = prepare,
    .combine = combine,
};

}  // namespace thinwire::codec
