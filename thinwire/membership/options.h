// How a coordinator decides: all that is not in the recipe. Every time derives from one setting.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/config/sync_section.h"

namespace thinwire::membership {

struct Options {
  double timeout_s = 1800;  // as sync.timeout_s: a round closes without those that take longer
  // Part of a round's weight, above 0 and at most 1, with which it may close before the time-out,
  // once the others are later than arrivals so far explain. 1: only with all that are present.
  double quorum = 1;
  double spread = 4;  // k of the deadline median + k * MAD of the arrivals
  // A contribution that came too late counts at its fragment's next turn; else it is forgotten.
  bool late_counts = false;
  config::RowShares shares = config::RowShares::kEqual;
  uint64_t snapshot_every = 100;  // rounds between the snapshots it asks for; 0: none
  uint64_t max_offences = 3;      // with so many a member is excluded

  // Throws UsageError naming the field, the value, and what would be right.
  void check() const;

  double report_s() const { return timeout_s / 40; }  // members are heard at least so often
  double retry_s() const { return timeout_s / 40; }   // an append without an answer is repeated
  double silence_s() const { return timeout_s / 4; }  // a member that is silent so long is lost
  double takeover_s() const {
    return timeout_s / 8;
  }  // a standby takes over from a silent coordinator
  // After the store was away whoever is there has said within this time how far it is.
  double settle_s() const { return timeout_s / 100; }
  double least_grace_s() const {
    return timeout_s / 100;
  }  // beyond the median, however close arrivals were
};

// When a round of which `arrivals` (seconds since it opened, one at least, in any order) have come
// closes with a quorum: median + max(spread * MAD, least_grace_s), at most timeout_s. MAD is the
// median of the distances from the median; medians of an even number are the mean of the middle
// two.
double deadline_s(const Options& options, std::vector<double> arrivals);

}  // namespace thinwire::membership
