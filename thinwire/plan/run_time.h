// How long a run takes: plays when members compute, send and wait, over lines as thinwire/links has
// them. What a run over simulated links (docs/simulated_links.md) measures, told from its schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/method/clusters.h"
#include "thinwire/method/method.h"
#include "thinwire/plan/members.h"

namespace thinwire::plan {

// What a run exchanges and when. Pieces are sent as schedule::FragmentSchedule says.
struct RunSchedule {
  int64_t steps = 1;
  int64_t every = 1;          // steps between two sends of a piece
  int64_t overlap_steps = 0;  // after which a piece is waited for; at the end of the run all are
  std::vector<method::Piece> pieces;
  method::Clusters clusters;          // of the members in their order; as many as members: none
  std::vector<method::Piece> inside;  // every step, by cluster; empty: nothing
  int64_t inside_overlap = 0;
  bool relay = true;  // that passes a payload on to all; else each gets it from its sender
};

// Seconds of the whole run, what is in flight at its end included; compute[i] is a step's of each
// of members[i]. Of a long run some rounds are played, and the others taken to be like the last
// ones.
double run_seconds(const RunSchedule& schedule, std::span<const Member> members,
                   std::span<const double> compute);

}  // namespace thinwire::plan
