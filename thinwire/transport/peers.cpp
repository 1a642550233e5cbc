#include "thinwire/transport/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace thinwire::transport {

void check_group(std::span<const int> members, const Peers& peers) {
  const bool ascending =
      std::ranges::adjacent_find(members, std::greater_equal<>()) == members.end();
  const bool known = std::ranges::all_of(
      members, [&](int member) { return member >= 0 && member < peers.count(); });
  if (ascending && known && std::ranges::find(members, peers.self()) != members.end()) return;
  throw Error(
      fmt::format("a group's members must be ascending ids of 0 to {}, {} among them; got {}",
                  peers.count() - 1, peers.self(), fmt::join(members, " ")));
}

}  // namespace thinwire::transport
