// The arithmetic of "A Preliminary Report on DisTrO" (Nous Research, 2024, table 3 and
// section 3.1), for its own case and any other: bytes per step and the seconds they take over a
// home internet link.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/links/links.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/methods/distro/distro_spec.h"

namespace thinwire::plan {

// The report's model (its table 1): 1.2049 B parameters.
method::ModelSpec report_model();

struct DistroCase {
  double parameters = 1.2e9;     // rounded, as in the report
  double payload_bytes = 2.8e6;  // one member's, per step
  int members = 32;
  links::Link link = {.up_bit_s = 10e6, .down_bit_s = 100e6};
  // aggregator: a server sums the payloads, so a member uploads its own once; peers: a member
  // uploads it to each of the others.
  std::string topology = "aggregator";
};

struct DistroCost {
  double all_reduce_bytes = 0;  // the report's yardstick: (m-1) gradients of 16 bits
  double ring_bytes = 0;        // of a bandwidth-optimal ring: 2 (m-1)/m gradients
  double sent_bytes = 0;        // by one member
  double received_bytes = 0;
  double ratio = 0;            // all_reduce_bytes / received_bytes = 2N / payload
  double ratio_ring = 0;       // ring_bytes / received_bytes
  double ratio_ring_sent = 0;  // ring_bytes / sent_bytes
  double seconds_up = 0;       // each direction by itself, at line rate
  double seconds_down = 0;
};

// Throws UsageError naming the field: members < 2, parameters, payload or a line rate <= 0, or an
// unknown topology.
DistroCost distro_cost(const DistroCase& setting);

// What one member sends per step in our own format: never more than `bound_bytes`; no code for
// uniformly drawn slots does better than `entropy_bytes`. The tensors are those of the gradients as
// the optimizer takes them (method::gradient_tensors).
struct DistroPayload {
  double bound_bytes = 0;
  double entropy_bytes = 0;
};
DistroPayload distro_payload(const method::DistroOptions& options,
                             std::span<const TensorSpec> tensors);

// The report's speculation (section 3.2): the same bytes per step for models from 1.2 B to 12 B
// parameters, so that the ratio grows with the model.
struct ConstantBytesPoint {
  double parameters = 0;
  double ratio = 0;
  double ratio_ring = 0;
};
std::vector<ConstantBytesPoint> constant_bytes_curve(const DistroCase& setting);

}  // namespace thinwire::plan
