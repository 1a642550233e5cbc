// Facts of DisTrO: its recipe section [distro], what it sends and what it keeps.
// thinwire/methods/distro/distro.md explains the method (DisTrO report, 2024; DeMo, arXiv
// 2411.19870).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/payload_format.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/tiles.h"

namespace thinwire::method {

enum class DistroUpdate : uint8_t { kSign, kAdamW, kSgd, kMuon };
enum class DistroTransform : uint8_t { kDct, kNone };
enum class DistroClient : uint8_t { kStateful, kStateless };

inline constexpr std::string_view kDistroUpdateNames[] = {"sign", "adamw", "sgd", "muon"};
inline constexpr std::string_view kDistroTransformNames[] = {"dct", "none"};
inline constexpr std::string_view kDistroClientNames[] = {"stateful", "stateless"};

constexpr Names names_of(DistroUpdate) { return kDistroUpdateNames; }
constexpr Names names_of(DistroTransform) { return kDistroTransformNames; }
constexpr Names names_of(DistroClient) { return kDistroClientNames; }

struct DistroOptions final : config::SectionOf<DistroOptions> {
  int64_t chunk = 64;
  int64_t k = 32;
  bool fixed_k = false;
  double decay = 0.999;
  ValueFormat values = ValueFormat::kOneBit;
  bool feedback = false;
  SlotMean aggregate = SlotMean::kOfSenders;
  SlotSums sums;
  DistroUpdate update = DistroUpdate::kSign;
  double muon_momentum = 0.9;
  double muon_scale = 0.2;
  DistroTransform transform = DistroTransform::kDct;
  DistroClient client = DistroClient::kStateful;
  int64_t local_steps = 1;  // s
  DistroUpdate local_update = DistroUpdate::kSgd;
  int64_t overlap = 0;
  bool look_ahead = false;
  void describe(config::Fields& fields) override;

  TileRule tiles() const { return {chunk, k, fixed_k}; }
  // Those of a payload with the mean of all (sums.formed()).
  DistroOptions of_sum() const;
  bool stateless() const { return client == DistroClient::kStateless; }
};

// The largest possible size of a payload (docs/formats.md), reached only by the least likely choice
// of slots.
int64_t distro_payload_bound(const TilePlan& plan, int value_bits);

// The same of the mean of so many payloads, with sum_wire (codec::SparseSum). `kept`: of the sum.
uint64_t sparse_sum_bound(const TilePlan& sent, const TilePlan& kept, uint64_t payloads,
                          ValueFormat values);

// Lower bound on the mean number of bits of any code, if all choices of slots are equally likely:
// the sum over tiles of log2 C(n, k) + k * value bits.
double distro_entropy_bits(const TilePlan& plan, int value_bits);

// What update = "muon" keeps: the matrices' momentum, equal on every replica. Not in the table of
// optimizers, since it makes sense for DisTrO's aggregates alone.
extern const OptimizerSpec kDistroMuon;

struct Method;
extern const Method kDistro;

}  // namespace thinwire::method
