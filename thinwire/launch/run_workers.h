// The workers of one process, one thread each.
#pragma once

#include <memory>
#include <span>

#include "thinwire/train/worker.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {

// Runs a worker for each of the communicators and waits for all. The first failure ends the run for
// all workers and is rethrown; throws Aborted if a worker in another process ended the run.
train::RunEnd run_workers(const train::RunContext& context,
                          std::span<const std::unique_ptr<transport::Communicator>> communicators);

}  // namespace thinwire::launch
