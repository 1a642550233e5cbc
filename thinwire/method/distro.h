// The facts of DisTrO: its recipe section [distro], what it sends and what it keeps. The method is
// explained in docs/methods/distro.md (DisTrO report, 2024; DeMo, arXiv 2411.19870).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/method.h"
#include "thinwire/method/tiles.h"

namespace thinwire::method {

struct DistroOptions final : config::SectionOf<DistroOptions> {
  int64_t chunk = 64;
  int64_t k = 32;
  bool fixed_k = false;
  double decay = 0.999;
  std::string values = "1bit";  // fp32 | bf16 | int8 | 1bit
  bool feedback = false;
  std::string aggregate = "mean_of_senders";  // mean_of_senders | mean_of_all
  std::string update = "sign";                // sign | adamw | sgd
  std::string transform = "dct";              // dct | none
  std::string client = "stateful";            // stateful | stateless
  int64_t local_steps = 1;                    // s
  std::string local_update = "sgd";           // sgd | sign | adamw
  int64_t overlap = 0;
  bool look_ahead = false;
  void describe(config::Fields& fields) override;

  TileRule tiles() const { return {chunk, k, fixed_k}; }
  bool stateless() const { return client == "stateless"; }
};

// Bits one value takes on the wire under `values`.
int distro_value_bits(const std::string& values);

// The most bytes a payload can have (docs/formats.md); reached only by the least likely slots.
int64_t distro_payload_bound(const TilePlan& plan, int value_bits);

// Bits no code for the same choice of slots can go below on average, if all choices are equally
// likely: sum over tiles of log2 C(n, k) + k * value bits.
double distro_entropy_bits(const TilePlan& plan, int value_bits);

extern const Method kDistro;

}  // namespace thinwire::method
