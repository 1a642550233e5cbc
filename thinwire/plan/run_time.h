// How long a run takes: simulates when members compute, send and wait, over the lines of
// thinwire/links. Predicts from the schedule what a run over simulated links
// (docs/simulated_links.md) measures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/method/method.h"
#include "thinwire/method/within.h"
#include "thinwire/plan/members.h"

namespace thinwire::plan {

// What a run exchanges and when. Pieces are sent as schedule::FragmentSchedule says.
struct RunSchedule {
  int64_t steps = 1;
  int64_t every = 1;          // steps between two sends of a piece
  int64_t overlap_steps = 0;  // steps after which a piece is waited for; all are at the end
  int64_t overlap_after =
      0;  // sends of a piece at the start of the run that are waited for at once
  std::vector<method::Piece> pieces;
  method::Clusters clusters;          // consecutive members; as many clusters as members: none
  method::ExchangeParts parts;        // of the only piece, which is sent in every step
  std::vector<method::Piece> inside;  // every step, by cluster; empty: nothing
  int64_t inside_overlap = 0;
  method::ExchangeParts inside_parts;  // without overlap
  bool relay = true;  // a relay passes a payload on to all; else its sender sends it to each
  // On many hosts (docs/hosts.md): a server stores everything, and nobody fetches anything before
  // all have sent. Members of one site receive each other's payloads over their line, too.
  bool stored = false;
};

// Seconds of the whole run, including the transfers at its end; compute[i] is the computation of a
// step for each of members[i]. In a long run only the first rounds are simulated, and the others
// taken to be like the last of these.
double run_seconds(const RunSchedule& schedule, std::span<const Member> members,
                   std::span<const double> compute);

}  // namespace thinwire::plan
