// The loss on a validation set that all workers evaluated together, for decisions that they all
// take alike: each offers its part, and each adds up all parts in the order of the members.
#pragma once

#include <cstdint>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/train/collector.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

// What all found after `completed` steps, the same bits on every worker. Waits for the others, with
// its cores given back.
Result<double> shared_loss(transport::Communicator& communicator, PermitHold& permits, uint64_t run,
                           int64_t completed, const EvalPart& part, double timeout_s);

}  // namespace thinwire::train
