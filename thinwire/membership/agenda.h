// Whether a coordinator may have anything to decide, at the cost of what it has received since it
// last looked. A decision looks at every member (decision.h), but most messages change nothing: an
// offer, before others have come as well, or a report that the member is still there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "thinwire/membership/decision.h"

namespace thinwire::membership {

// Not thread-safe.
class Agenda {
 public:
  // Something has happened that any decision may depend on, such as a record.
  void reopen();
  // A message of this member has arrived, or the store has a payload of its.
  void heard(int member) {
    if (!open_) heard_.push_back(member);
  }
  // False: its run() would record and refuse nothing. `decision` has not run, and must not run
  // afterwards.
  bool is_due(Decision& decision);
  // Its run() has recorded and refused nothing.
  void close(const Decision& decision);

 private:
  bool may_matter(Decision& decision, int member);
  bool may_change_digest(const Decision& decision, int member);

  bool open_ = true;
  std::vector<int> heard_;  // since the last is_due()
  // What follows was true when it was closed, and is kept up to date by what was heard.
  std::optional<double> silent_since_;  // no member that is present was last heard before that
  bool lacks_members_ = false;
  Arrivals arrivals_;
  size_t active_ = 0;
  // Who has reported a digest, by its round, of rounds that no digest is agreed on.
  std::map<uint64_t, std::set<int>> reporters_;
  bool has_majority_ = false;  // one of these has more than half of the active members
};

}  // namespace thinwire::membership
