// Members as threads of one process. Bytes are handed over, not copied, and counted as a wire would
// carry them.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/transport/peers.h"

namespace thinwire::transport {

// One Peers for each of `members` threads; they share a hub that lives as long as any of them.
std::vector<std::unique_ptr<Peers>> make_local_peers(int members);

}  // namespace thinwire::transport
