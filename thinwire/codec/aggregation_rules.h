// The rules of codec/aggregation.h, one file each. docs/aggregation.md has their equations.
#pragma once

#include "thinwire/codec/aggregation.h"

namespace thinwire::codec {

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
