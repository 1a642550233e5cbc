// How long bytes take over a link: a pure model, shared by the trainer's report, simulated
// transports and the planner.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "thinwire/config/sections.h"

namespace thinwire::links {

// One member's connection to the internet; both directions carry traffic at once.
struct Link {
  double up_bit_s = 0;
  double down_bit_s = 0;
  double delay_s = 0;  // one way
  double loss = 0;     // share of bytes that must be sent again, in [0, 1)
};

// Seconds that bytes occupy one direction of a link.
double up_seconds(const Link& link, double bytes);
double down_seconds(const Link& link, double bytes);

// Seconds until a member has sent and received this many bytes in `round_trips` dependent
// exchanges: the time of the slower direction plus one delay per round trip.
double transfer_seconds(const Link& link, double bytes_sent, double bytes_received,
                        double round_trips);

// The same over a server that stores what all have sent before anybody fetches it (docs/hosts.md):
// the time of one direction after that of the other. A member's last byte takes a delay to arrive,
// to be acknowledged and to be offered; then the decision, the request and the answer each take
// one.
inline constexpr double kStoringDelays = 3;
inline constexpr double kFetchingDelays = 3;
double stored_seconds(const Link& link, double bytes_sent, double bytes_received,
                      double round_trips);

// A member of a simulated run.
struct Member {
  Link link;
  double step_s = 0;  // seconds of computation per training step
};

// What [links] says about each member. Throws UsageError naming an entry of links.members that is
// not "MEMBER.FIELD=VALUE", or whose member or value is impossible.
std::vector<Member> members_of(const config::LinksSection& section, int members);

// When each of several operations finishes that use the same lines one after another. A pure model,
// shared by simulated transports and the planner. docs/simulated_links.md says what it assumes.

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
