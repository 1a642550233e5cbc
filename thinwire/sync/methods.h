// The algorithms of the methods, which sync/registry.cpp lists.
#pragma once

#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {

// All-reduce: the baseline for every comparison. In every step the gradients are averaged over the
// workers, weighted by rows, and every replica takes the same optimizer step with the same mean,
// either at once (sync/gradient_average.h) or tensor by tensor during the backward pass
// (sync/streamed_updates.h).
extern const Algorithm kAllReduce;

// DisTrO: every worker sends the largest DCT coefficients of its own momentum, and all apply the
// mean of what was sent (docs/methods/distro.md; DisTrO report, 2024; DeMo, arXiv 2411.19870). No
// gradient is summed over the workers and no optimizer state is synchronised. A round continues
// with the members whose payloads were committed.

// State: "distro.momentum" (local; coefficients, see distro_encoder.h) and, with update = "adamw",
// the optimizer's (consensus). A gradient that is not finite is an Error and changes nothing.
extern const Algorithm kDistro;

// DiLoCo and its presets (docs/methods/diloco.md): workers, or clusters of them, train their own
// weights. Fragment by fragment, the pseudo-gradients (the shared weights minus a worker's own) are
// summed over all, while the workers wait or continue training.
extern const Algorithm kDiloco;

// SparseLoCo: docs/methods/sparseloco.md.
extern const Algorithm kSparseLoco;

}  // namespace thinwire::sync
