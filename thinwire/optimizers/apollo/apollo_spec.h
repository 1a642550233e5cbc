// Facts of APOLLO (Zhu et al. 2024, arXiv 2412.05270): steps along the gradient itself, with its
// channels scaled the way Adam scales a random projection of it.
#pragma once

#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// What gets its own scale: each channel along a matrix's larger dimension, or the whole matrix.
enum class Scaling : uint8_t { kChannel, kTensor };
inline constexpr std::string_view kScalingNames[] = {"channel", "tensor"};
constexpr std::span<const std::string_view> names_of(Scaling) { return kScalingNames; }

// The table [apollo]. APOLLO-Mini is rank 1, scaling "tensor" and scale sqrt(128).
struct ApolloOptions final : OptimizerSectionOf<ApolloOptions> {
  LowRankFields low_rank;
  Scaling scaling = Scaling::kChannel;
  double scale = 1;      // alpha
  double growth = 1.01;  // gamma
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kApollo;

}  // namespace thinwire::method
