// Members as threads of one process. Bytes are handed over, not copied, and counted as a wire would
// carry them.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

// A communicator for each of `members` threads; they share a hub that lives as long as any of them.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(int members);

}  // namespace thinwire::transport
