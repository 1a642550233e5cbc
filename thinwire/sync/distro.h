// DisTrO: every worker sends the largest DCT coefficients of its own momentum, and all apply the
// mean of what was sent (docs/methods/distro.md; DisTrO report, 2024; DeMo, arXiv 2411.19870). No
// gradient is summed over the workers and no optimizer state is synchronised. A round continues
// with the members whose payloads were committed.
#pragma once

#include <memory>

#include "thinwire/method/distro.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

// State: "distro.momentum" (local; coefficients, see distro_encoder.h) and, with update = "adamw",
// the optimizer's (consensus). A gradient that is not finite is an Error and changes nothing.
std::unique_ptr<Strategy> make_distro(const Worker& worker, const method::DistroOptions& options);

}  // namespace thinwire::sync
