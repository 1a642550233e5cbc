// The loss on a validation set that all workers evaluated together, for decisions that all must
// take in the same way: each sends its part, and each adds up all parts in the order of the
// members.
#pragma once

#include <cstdint>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/train/collector.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

// The total after `completed` steps, with the same bits on every worker. Waits for the others, and
// gives its cores back meanwhile.
Result<double> shared_loss(transport::Communicator& communicator, PermitHold& permits, uint64_t run,
                           int64_t completed, const EvalPart& part, double timeout_s);

}  // namespace thinwire::train
