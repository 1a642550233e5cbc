// When each of several operations finishes that use the same lines one after another. A pure model,
// shared by simulated transports and the planner. docs/simulated_links.md says what it assumes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "thinwire/links/links.h"

namespace thinwire::links {

// From when to when something happens, in seconds since the start.
struct Span {
  double begin = 0;
  double end = 0;
};

// When one direction of a link is occupied.
class Channel {
 public:
  // Occupies `seconds` of the time that is still free from `ready` on, as early as possible and
  // perhaps with interruptions: what was taken before is not moved. Returns the first and the last
  // moment, both `ready` or later.
  Span take(double ready, double seconds);
  // Nothing will be taken before `time`.
  void forget_before(double time);

 private:
  std::vector<Span> taken_;  // ascending, neither overlapping nor touching
};

struct Line {
  Link link;
  Channel up, down;
};

// One round trip of an operation: line i sends up_bytes[i] from ready[i] on, and down_bytes(from,
// to) of them come down at `to`, in the order in which the lines begin. Returns when each line has
// received everything, ready[i] if it receives nothing. Earlier operations keep the time that they
// take of the lines.
std::vector<double> run_round_trip(std::span<Line* const> lines, std::span<const double> ready,
                                   std::span<const double> up_bytes,
                                   const std::function<double(size_t from, size_t to)>& down_bytes);

}  // namespace thinwire::links
