// The workers of one process: a thread each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/train/worker.h"
#include "thinwire/transport/peers.h"

namespace thinwire::train {

// Runs a worker for each of the peers and waits for all; returns the number of completed steps. The
// first failure ends the run for everybody and is rethrown; Aborted when the run was ended by a
// worker elsewhere.
int64_t run_workers(const RunContext& context,
                    std::span<const std::unique_ptr<transport::Peers>> peers);

}  // namespace thinwire::train
