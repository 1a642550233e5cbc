#include "thinwire/transport/local.h"

#include <fmt/format.h>

#include "thinwire/transport/local_hub.h"

namespace thinwire::transport {

std::vector<std::unique_ptr<Communicator>> make_local_communicators(int members) {
  if (members < 1) throw Error(fmt::format("a run needs at least 1 worker, got {}", members));
  const auto hub = std::make_shared<LocalHub>(members);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int member = 0; member < members; ++member) {
    communicators.push_back(make_hub_communicator(hub, members, member));
  }
  return communicators;
}

}  // namespace thinwire::transport
