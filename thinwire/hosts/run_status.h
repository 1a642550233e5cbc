// The state of a run, for users and scripts: what `thinwire status` shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {

struct MemberStatus {
  int id = 0;
  std::string key;             // its id among the run's keys (key_ring.h)
  std::string phase;           // docs/hosts.md, "Phases of a member"
  double silent_s = -1;        // since its last message; -1: none since the coordinator started
  double step_s = 0;           // its latest time to compute its rows; 0: not known
  double rows_per_second = 0;  // 0: not known
  uint64_t behind = 0;         // records of the ledger that it has not reported as applied
  uint64_t offences = 0;
  std::string refused;  // why its last refused payload does not count; empty: none was refused
  uint64_t audits =
      0;              // of its last contributions, that are compared with others' (docs/audits.md)
  double effect = 0;  // their mean
};

struct RunStatus {
  std::string name;    // run.name
  std::string method;  // sync.method
  uint64_t round = 0;  // the oldest open one; the number of rounds once the run is finished
  uint64_t rounds = 0;
  uint64_t step = 0;  // completed training steps
  uint64_t steps = 0;
  bool finished = false;
  std::string digest;     // of the final weights; empty: not known
  std::string waits_for;  // why no round is open; empty: one is, or all are done
  std::vector<MemberStatus> members;
  uint64_t left_out = 0;  // further members, for which an answer has no room
};

RunStatus status_of(const config::Recipe& recipe, const serve::CoordinatorHost& host,
                    uint64_t rounds);

// One line of JSON that fits into an answer, and back. Members that do not fit, those with the
// highest ids, are counted in left_out. Reading is total: kCorruptPayload for anything else.
std::string print_status(const RunStatus& status);
Result<RunStatus> read_status(std::string_view text);

// As lines to print.
std::vector<std::string> describe(const RunStatus& status);

}  // namespace thinwire::hosts
