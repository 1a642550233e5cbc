#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/codec/aggregation.h"

namespace thinwire::codec {
namespace {

// Rounded up, but for the rounding of trim * members itself; one value is always left.
void prepare(const AggregateOptions& options, std::span<const Magnitude> magnitudes,
             AggregationTerms& terms) {
  constexpr double kRounding = 1e-9;
  const auto members = static_cast<int>(magnitudes.size());
  const auto wanted = static_cast<int>(std::ceil(options.trim * members - kRounding));
  terms.trimmed = std::min(wanted, (members - 1) / 2);
}

// The values are in ascending order, equal ones in that of members.
float mean_of_rest(const AggregationTerms& terms, const AggregationPiece& piece,
                   std::span<const std::pair<float, size_t>> sorted) {
  const auto trimmed = static_cast<size_t>(terms.trimmed);
  float sum = 0;
  float weight = 0;
  for (const auto& [value, member] : sorted.subspan(trimmed, sorted.size() - 2 * trimmed)) {
    if (piece.of_senders && value == 0) continue;
    sum += terms.weights[member] * value;
    weight += terms.weights[member];
  }
  return weight > 0 ? sum / weight : 0;
}

void combine(const AggregationTerms& terms, const AggregationPiece& piece, float* out) {
  std::vector<std::pair<float, size_t>> sorted(piece.values.size());
  for (size_t i = 0; i < piece.count; ++i) {
    bool sent = false;
    for (size_t m = 0; m < sorted.size(); ++m) {
      sorted[m] = {piece.values[m][i], m};
      sent = sent || piece.values[m][i] != 0;
    }
    if (sent) std::ranges::sort(sorted);
    out[i] = sent ? mean_of_rest(terms, piece, sorted) : 0;
  }
}

}  // namespace

const AggregationRule kTrimmedMean = {
    .name = Aggregate::kTrimmedMean,
    .sentence = "each coordinate's mean without its smallest and largest values",
    .prepare = prepare,
    .combine = combine,
};

}  // namespace thinwire::codec
