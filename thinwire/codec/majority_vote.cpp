#include "thinwire/base/maths.h"
#include "thinwire/codec/aggregation.h"

namespace thinwire::codec {
namespace {

void prepare(const AggregateOptions&, std::span<const Magnitude> magnitudes,
             AggregationTerms& terms) {
  std::vector<double> sizes;
  for (const Magnitude& one : magnitudes) sizes.push_back(one.rms());
  terms.magnitude = static_cast<float>(median_of(std::move(sizes)));
}

// Whoever sent nothing at a coordinate does not vote there.
void combine(const AggregationTerms& terms, const AggregationPiece& piece, float* out) {
  for (size_t i = 0; i < piece.count; ++i) {
    float votes = 0;
    float voters = 0;
    for (size_t m = 0; m < piece.values.size(); ++m) {
      const float value = piece.values[m][i];
      if (value == 0) continue;
      votes += value > 0 ? terms.weights[m] : -terms.weights[m];
      voters += terms.weights[m];
    }
    const float sign = votes > 0 ? 1.0f : votes < 0 ? -1.0f : 0.0f;
    out[i] = sign * terms.magnitude * (piece.of_senders ? 1.0f : voters);
  }
}

}  // namespace

const AggregationRule kMajorityVote = {
    .name = Aggregate::kMajorityVote,
    .sentence = "the sign that most members have at a coordinate, times their median RMS",
    .prepare = prepare,
    .combine = combine,
};

}  // namespace thinwire::codec
