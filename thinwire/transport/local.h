// Members as threads of one process. Bytes are passed on without copying, and counted as if they
// were sent; sums are formed from the members' own memory.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/transport/carrier.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

// A communicator for each of `members` threads; they share a hub that lives as long as any of them.
// `carrier` says when operations have arrived; null: immediately.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    int members, std::shared_ptr<Carrier> carrier = nullptr);

}  // namespace thinwire::transport
