// Options of a coordinator. All times derive from timeout_s.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/config/sections.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::membership {

struct Options {
  // As sync.timeout_s: a round closes without members that take so much longer than the others.
  double timeout_s = 600;
  // The share of a round's rows, above 0 and at most 1, that closes it without members that are
  // present once these are past their deadline (deadlines_of). 1: none of them is left out before
  // the last one. Members that are absent are left out past theirs once half of the rows or of the
  // members have arrived, or the quorum if that is less; with fewer, once they have all been silent
  // for absent_s.
  double quorum = 1;
  double spread = 4;  // k of the deadlines median + k * MAD of the arrivals
  // A late contribution counts when its fragment is next exchanged. If false, it is dropped.
  bool late_counts = false;
  config::RowShares shares = config::RowShares::kEqual;
  uint64_t snapshot_every = 100;  // rounds between requested snapshots; 0: none
  std::string watch = {};  // the validation set whose losses decide; empty: no evaluation decides
  uint64_t patience = 0;   // the run ends after so many evaluations without a lower loss; 0: never
  uint64_t max_offences = 3;  // a member with this many is excluded
  // The largest record of the ledger, by which the number of members is limited (run_plan.h).
  uint64_t max_record_bytes = kMaxRecordBytes;

  // Throws UsageError that names the field, its value and what would be valid.
  void check() const;

  double report_s() const { return timeout_s / 40; }  // members report at least this often
  double retry_s() const { return timeout_s / 40; }   // an unanswered append is repeated
  double absent_s() const { return timeout_s / 20; }  // a member silent for longer is absent
  // A member silent this long is lost; if there are others, and none is heard either, after
  // timeout_s.
  double silence_s() const { return timeout_s / 4; }
  // A complete run is served for members that lack its end, until they have been silent this long;
  // by a coordinator that was started since their last message, for silence_s from then on.
  double linger_s() const { return timeout_s / 2; }
  // A standby takes over from a coordinator silent this long.
  double takeover_s() const { return timeout_s / 8; }
  // Once the store is back, members that are present report their positions within this time.
  double settle_s() const { return timeout_s / 100; }
  // Absent members have at least this long to return after the median arrival.
  double return_s() const { return timeout_s / 100; }
};

// The options of a run with this recipe.
Options options_of(const config::Recipe& recipe);
// The options by which time goes, of a run with this section.
Options options_of(const config::SyncSection& sync);
// Whether evaluations of a run decide something (Options::watch).
bool decides_by_evaluations(const config::Recipe& recipe);

// When a round closes without some of its members, in seconds since it opened.
struct Deadlines {
  double slow = 0;    // without those that are present, with a quorum
  double absent = 0;  // without absent ones
  double last = 0;    // with whatever has arrived
};
// `arrivals`: of the contributions so far, in seconds since the round opened, at least one, in any
// order. `round_s`: how long the round before took; 0: not known. With the median of the arrivals
// and `typical`, the larger of the median and round_s:
//   slow    median + max(spread * MAD, min(return_s, typical / 4)), without the quarter while
//           round_s is not known
//   absent  median + max(spread * MAD, return_s)
//   last    typical + timeout_s, and none of the others is later
// MAD is the median distance from the median; the median of an even number of values is the mean of
// the middle two.
Deadlines deadlines_of(const Options& options, std::vector<double> arrivals, double round_s);

}  // namespace thinwire::membership
