// A round: the unit in which the members of a run agree. It opens with a roster: the rows of data
// that each member takes and the weight of its contribution. It commits with an ordered list of
// payloads (transport/communicator.h); nobody applies anything before the commit. Most methods
// close a round with every training step; methods with local steps take several steps first.
#pragma once

#include <algorithm>
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
  float weight = 0;    // this member's share of the round's rows; the roster's weights add up to 1
  uint64_t since = 0;  // first step of its current unbroken period of being active, or inactive

  // An inactive member takes no rows and contributes nothing, but applies what the others agree on.
  bool inactive() const { return weight == 0; }
};

// One training step of a round.
struct Round {
  uint64_t run = 0;         // identifies the run; payloads of other runs are refused
  uint32_t epoch = 0;       // changes whenever the membership does
  uint64_t number = 0;      // the round, counted from 0; part of its operations' keys
  uint64_t step = 0;        // the training step, counted from 0
  float learning_rate = 0;  // of the step; carried as bits, never recomputed by members
  float round_rate = 0;     // sum of the round's learning rates so far, including this step's
  bool closes = true;       // the round's last step: members exchange after it
  bool last = false;        // the run's last step: nothing may be left in flight
  // In a run of one worker on many hosts, while its member is alone: others may follow this round
  // later, so it sends, unaltered, what it would otherwise apply without an exchange.
  bool followed = false;
  // The worker that this round is for only follows it, although its member is in the roster: it
  // took part before it restarted, and what it sent then counts.
  bool replayed = false;
  uint64_t entered = 0;  // the step from which this worker has computed, if later than its member
  std::vector<RoundMember> roster;  // ordered by id

  int size() const { return static_cast<int>(roster.size()); }
  // Whether members average what they apply.
  bool exchanges() const { return size() > 1 || followed; }
  bool has(int id) const { return std::ranges::find(roster, id, &RoundMember::id) != roster.end(); }
  // The member with this id; one that the roster does not have is inactive.
  RoundMember member(int id) const {
    const auto found = std::ranges::find(roster, id, &RoundMember::id);
    if (found != roster.end()) return *found;
    RoundMember inactive;
    inactive.id = id;
    return inactive;
  }
  // What a worker does in the round for the member with this id, which is its own.
  RoundMember own(int id) const {
    RoundMember one = member(id);
    one.since = std::max(one.since, entered);
    if (replayed) {
      one.rows = {};
      one.weight = 0;
    }
    return one;
  }
  // Whether a worker takes part in the round for this member, perhaps without rows.
  bool takes_part(int id) const { return has(id) && !replayed; }
  // The ids of the active members, ascending.
  std::vector<int> active() const {
    std::vector<int> ids;
    for (const RoundMember& one : roster) {
      if (!one.inactive()) ids.push_back(one.id);
    }
    return ids;
  }
};

}  // namespace thinwire
