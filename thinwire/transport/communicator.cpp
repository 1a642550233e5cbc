#include "thinwire/transport/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace thinwire::transport {

void check_split(std::span<const int> members, const Communicator& communicator) {
  const bool ascending =
      std::ranges::adjacent_find(members, std::greater_equal<>()) == members.end();
  const bool known = std::ranges::all_of(
      members, [&](int member) { return member >= 0 && member < communicator.size(); });
  if (ascending && known && std::ranges::find(members, communicator.rank()) != members.end())
    return;
  throw Error(
      fmt::format("a group's members must be ascending ids of 0 to {}, {} among them; got {}",
                  communicator.size() - 1, communicator.rank(), fmt::join(members, " ")));
}

}  // namespace thinwire::transport
