// A round: one agreed step of a run. It opens with a roster, the rows of data each member takes and
// the weight its contribution has; it commits with an ordered list of payloads
// (transport/peers.h). Nobody applies anything before the commit.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire {

// Rows [first, first + count) of the run's data order.
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

struct RoundMember {
  int id = 0;
  RowRange rows;
  float weight = 0;  // this member's share of the round's tokens; the roster's weights add up to 1
};

struct Round {
  uint64_t run = 0;                 // identifies the run; payloads of other runs are refused
  uint32_t epoch = 0;               // changes with the membership
  uint64_t number = 0;              // the training step, counted from 0
  float learning_rate = 0;          // carried as bits, never recomputed by members
  std::vector<RoundMember> roster;  // ordered by id

  int size() const { return static_cast<int>(roster.size()); }
};

}  // namespace thinwire
