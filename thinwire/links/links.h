// How long bytes take over a link: a pure model, shared by the trainer's report, simulated
// transports and the planner.
#pragma once

#include <vector>

#include "thinwire/config/links_section.h"

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

}  // namespace thinwire::links
