// How the contributions of several members become one, so that a few that are wrong, or meant to do
// harm, move the result little (recipe field sync.aggregate; docs/aggregation.md). A rule is one
// file and one line of the table in aggregation.cpp. The mean is not in that table: the transport
// forms it (transport/communicator.h), or the code that decodes the values.
//
// Every replica computes a rule for itself from the same bytes, in fp32 with a fixed order of
// operations, and norms in fp64; so all of them get the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/aggregate.h"

namespace thinwire::codec {

// What is measured about a contribution before it is counted.
struct Magnitude {
  double squares = 0;  // the sum of them
  int64_t values = 0;  // that are not zero

  double norm() const;  // L2
  double rms() const;   // of the values that are not zero; 0 if all are
  bool finite() const;
};

// Adds values, one after another.
void measure(std::span<const float> values, Magnitude& magnitude);

// What a rule derives from all contributions together; indexed by member, in the order of the
// contributions.
struct AggregationTerms {
  std::vector<float> weights;  // above 0, adding up to 1
  std::vector<float> factors;  // norm_clipping: what values are multiplied by
  int trimmed = 0;             // trimmed_mean: values left out at either end
  float magnitude = 0;         // majority_vote: that of every voted value
};

// Some coordinates of all contributions: values[m][i] is member m's at coordinate i, 0 if it sent
// none.
struct AggregationPiece {
  std::span<const float* const> values;
  size_t count = 0;
  // Divide by the weight of those that sent something at a coordinate, instead of that of all.
  bool of_senders = false;
};

struct AggregationRule {
  Aggregate name;
  std::string_view sentence;  // shown to users
  // Completes terms that hold the weights. There is at least one member.
  void (*prepare)(const AggregateOptions& options, std::span<const Magnitude> magnitudes,
                  AggregationTerms& terms);
  // Writes piece.count values.
  void (*combine)(const AggregationTerms& terms, const AggregationPiece& piece, float* out);
};

// All rules but the mean.
std::span<const AggregationRule* const> all_aggregation_rules();

// A rule applied to the contributions of one operation. Any number of threads may use it.
class Aggregation {
 public:
  // `weights`: above 0, of any sum; one for each finite magnitude, at least one. options.robust().
  Aggregation(const AggregateOptions& options, std::span<const float> weights,
              std::span<const Magnitude> magnitudes);

  void combine(const AggregationPiece& piece, float* out) const {
    rule_.combine(terms_, piece, out);
  }
  const AggregationTerms& terms() const { return terms_; }

 private:
  const AggregationRule& rule_;
  AggregationTerms terms_;
};

// The rules of codec/aggregation.h, one file each. docs/aggregation.md has their equations.

// Norm clipping to the median: contributions whose L2 norm is above the median norm are scaled down
// to it, and averaged. Sun et al. 2019, "Can You Really Backdoor Federated Learning?", arXiv
// 1911.07963, section 4, with the median of the round as the threshold.
extern const AggregationRule kNormClipping;

// The coordinate-wise trimmed mean: Yin et al. 2018, "Byzantine-Robust Distributed Learning:
// Towards Optimal Statistical Rates", arXiv 1803.01498, definition 2.
extern const AggregationRule kTrimmedMean;

// The majority vote of signSGD: Bernstein et al. 2018, arXiv 1802.04434, algorithm 3 and section
// 4, with a magnitude: the median of the members' RMS.
extern const AggregationRule kMajorityVote;

}  // namespace thinwire::codec
