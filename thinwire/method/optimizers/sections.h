// The recipe tables of the optimizers, and their specs. The arithmetic is in optim/optimizers.h and
// optim/adamw.h.
#pragma once

#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// Facts of AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101,
// algorithm 2).

// The table [adamw].
struct AdamwOptions final : OptimizerSectionOf<AdamwOptions> {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kAdamw;

// Facts of Muon (Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982).

// The table [muon].
struct MuonOptions final : OptimizerSectionOf<MuonOptions> {
  double lr = 0;  // peak learning rate of the matrices; 0: optim.lr
  double momentum = 0.95;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kMuon;

// Facts of GaLore (Zhao et al. 2024, arXiv 2403.03507): Adam on a matrix's gradient projected into
// a low-dimensional subspace.

// The table [galore].
struct GaloreOptions final : OptimizerSectionOf<GaloreOptions> {
  LowRankFields low_rank;
  double scale = 0.25;  // alpha
  Moments moments = Moments::kKeep;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kGalore;

// Whether the recipe's optimizer is GaLore with seeded bases, which all workers share without
// exchanging anything.
bool draws_bases(const config::Recipe& recipe);

// Facts of Natural GaLore (Das 2024): GaLore whose projected gradients are multiplied by the
// inverse of an empirical Fisher matrix built from the last few of them.

// What happens to the history of projected gradients when the basis is renewed.
enum class History : uint8_t { kRotate, kClear, kKeep };
inline constexpr std::string_view kHistoryNames[] = {"rotate", "clear", "keep"};
constexpr std::span<const std::string_view> names_of(History) { return kHistoryNames; }

// How damping is added to the Fisher matrix: as it is, or times the mean square norm of the
// gradients in the history.
enum class Damping : uint8_t { kAbsolute, kRelative };
inline constexpr std::string_view kDampingNames[] = {"absolute", "relative"};
constexpr std::span<const std::string_view> names_of(Damping) { return kDampingNames; }

// The table [natural_galore].
struct NaturalGaloreOptions final : OptimizerSectionOf<NaturalGaloreOptions> {
  LowRankFields low_rank;
  double scale = 0.25;  // alpha
  Moments moments = Moments::kKeep;
  Sides sides = Sides::kOne;
  int64_t history = 20;  // s
  History at_refresh = History::kRotate;
  double damping = 1e-3;  // lambda
  Damping damping_is = Damping::kAbsolute;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kNaturalGalore;

// Facts of APOLLO (Zhu et al. 2024, arXiv 2412.05270): steps along the gradient itself, with its
// channels scaled the way Adam scales a random projection of it.

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

// Facts of Fira (Chen et al. 2024, arXiv 2410.01623): GaLore that also steps along the part of the
// gradient outside its subspace.

// The table [fira].
struct FiraOptions final : OptimizerSectionOf<FiraOptions> {
  LowRankFields low_rank;
  double scale = 1;  // alpha
  Moments moments = Moments::kKeep;
  double growth = 1.01;  // gamma
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kFira;

// Facts of SCALE (Glentis et al. 2025, arXiv 2506.16659): gradient descent with column-normalised
// gradients, and momentum on the last layer only.

// The table [scale].
struct ScaleOptions final : OptimizerSectionOf<ScaleOptions> {
  double momentum = 0.9;  // beta
  void describe(config::Fields& fields) override;
};

// Whether the tensor is the last layer: the head, or the embedding if it is tied.
bool is_last_layer(const OptimizerOptions& options, const TensorSpec& tensor);

extern const OptimizerSpec kScale;

}  // namespace thinwire::method
