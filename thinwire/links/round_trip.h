// When each of several operations finishes that use the same lines one after another. A pure model,
// shared by simulated transports and the planner. docs/simulated_links.md says what it assumes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "thinwire/links/links.h"

namespace thinwire::links {

// A link, and when each of its directions is free again, in seconds since the start.
struct Line {
  Link link;
  double up_free = 0;
  double down_free = 0;
};

// One round trip of an operation: line i sends up_bytes[i] from ready[i] on, and down_bytes(from,
// to) of them come down at `to`, in the order in which the lines begin. Returns when each line has
// received everything, ready[i] if it receives nothing. Lines are occupied until then.
std::vector<double> run_round_trip(std::span<Line* const> lines, std::span<const double> ready,
                                   std::span<const double> up_bytes,
                                   const std::function<double(size_t from, size_t to)>& down_bytes);

}  // namespace thinwire::links
