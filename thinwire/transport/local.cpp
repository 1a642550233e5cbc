#include "thinwire/transport/local.h"

#include <fmt/format.h>

#include "thinwire/transport/local_hub.h"

namespace thinwire::transport {

std::vector<std::unique_ptr<Peers>> make_local_peers(int members) {
  if (members < 1) throw Error(fmt::format("a run needs at least 1 worker, got {}", members));
  const auto hub = std::make_shared<LocalHub>(members);
  std::vector<std::unique_ptr<Peers>> peers;
  for (int member = 0; member < members; ++member) {
    peers.push_back(make_hub_peers(hub, members, member));
  }
  return peers;
}

}  // namespace thinwire::transport
