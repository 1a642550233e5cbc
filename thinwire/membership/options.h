// Options of a coordinator. All times derive from timeout_s.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/config/sync_section.h"
#include "thinwire/membership/record_parts.h"

namespace thinwire::membership {

struct Options {
  double timeout_s = 1800;  // as sync.timeout_s: a round closes without members that take longer
  // The share of a round's rows, above 0 and at most 1, that closes it before the timeout once the
  // others are past the deadline (deadline_s). 1: no member that is present is left out. Members
  // that are absent are left out past the deadline once half of the rows have arrived, or the
  // quorum if that is less.
  double quorum = 1;
  double spread = 4;  // k of the deadline median + k * MAD of the arrivals
  // A late contribution counts when its fragment is next exchanged. If false, it is dropped.
  bool late_counts = false;
  config::RowShares shares = config::RowShares::kEqual;
  uint64_t snapshot_every = 100;  // rounds between requested snapshots; 0: none
  uint64_t max_offences = 3;      // a member with this many is excluded
  // Of a record of the ledger, by which the number of members is limited (room.h).
  uint64_t max_record_bytes = kMaxRecordBytes;

  // Throws UsageError that names the field, its value and what would be valid.
  void check() const;

  double report_s() const { return timeout_s / 40; }  // members report at least this often
  double retry_s() const { return timeout_s / 40; }   // an unanswered append is repeated
  double absent_s() const { return timeout_s / 20; }  // a member silent for longer is absent
  double silence_s() const { return timeout_s / 4; }  // a member silent this long is lost
  // A complete run is served for members that lack its end, until they have been silent this long.
  double linger_s() const { return timeout_s / 2; }
  // A standby takes over from a coordinator silent this long.
  double takeover_s() const { return timeout_s / 8; }
  // Once the store is back, members that are present report their positions within this time.
  double settle_s() const { return timeout_s / 100; }
  // Minimum time beyond the median, however close together the arrivals were.
  double min_grace_s() const { return timeout_s / 100; }
};

// Those of a run with this recipe.
Options options_of(const config::SyncSection& sync);

// When a round closes with a quorum, in seconds since it opened: median + max(spread * MAD,
// min_grace_s), at most timeout_s. `arrivals`: of the contributions so far, in seconds since it
// opened, at least one, in any order. MAD is the median distance from the median; the median of an
// even number of values is the mean of the middle two.
double deadline_s(const Options& options, std::vector<double> arrivals);

}  // namespace thinwire::membership
