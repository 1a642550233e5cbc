// How long bytes take over a link: a pure model, shared by the trainer's report and the planner.
#pragma once

namespace thinwire::links {

// One member's connection to the internet; both directions carry traffic at once.
struct Link {
  double up_bit_s = 0;
  double down_bit_s = 0;
  double delay_s = 0;  // one way
};

// Seconds until a member has sent and received this many bytes in `turns` dependent exchanges: the
// slower direction's line rate plus one delay a turn.
double transfer_seconds(const Link& link, double bytes_sent, double bytes_received, double turns);

}  // namespace thinwire::links
