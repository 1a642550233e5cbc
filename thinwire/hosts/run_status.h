// The state of a run, for users and scripts: what `thinwire status` shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/contributions.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {

struct MemberStatus {
  int id = 0;
  std::string key;             // its id (key_id)
  std::string machine = {};    // what its owner calls it; may be empty
  std::string phase;           // docs/hosts.md, "Phases of a member"
  double silent_s = -1;        // since its last message; -1: none since the coordinator started
  double step_s = 0;           // its latest time to compute its rows; 0: not known
  double rows_per_second = 0;  // 0: not known
  uint64_t own_rows = 0;       // of its own text, with sync.shares = "own"; else 0
  uint64_t behind = 0;         // closed rounds that it has not reported as applied
  uint64_t offences = 0;
  Contributed contributed = {};  // so far
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
  std::string waits_for;  // as the function of this name gives it
  // In a run with noise ([privacy]): the sums so far, and the epsilon of a member that has
  // contributed once to each, with delta.
  uint64_t sums = 0;
  double epsilon = 0;  // 0: there is no noise, or nothing was contributed
  double delta = 0;    // 0: there is no noise
  std::vector<MemberStatus> members;
  uint64_t left_out = 0;  // further members, for which an answer has no room
};

// `obstacle`: what the store waits for (RunServers::obstacle); empty: nothing.
RunStatus status_of(const config::Recipe& recipe, const serve::CoordinatorHost& host,
                    uint64_t rounds, const std::string& obstacle, const MachineOf& machine_of,
                    const std::map<int, Contributed>& contributed = {});
// Adds what others can have learnt of a member's text, in a run with noise.
void add_privacy(const config::PrivacySection& privacy, const membership::RunPlan& plan,
                 RunStatus& status);

// What the run waits for, as in its status: the store, members that it needs or that are silent, or
// those that have yet to fetch the final weights. Empty: nothing unusual.
std::string waits_for(const config::Recipe& recipe, const serve::CoordinatorHost& host,
                      const std::string& obstacle);

// One line of JSON that fits into an answer, and back. Members that do not fit, those with the
// highest ids, are counted in left_out. Reading is total: kCorruptPayload for anything else.
std::string print_status(const RunStatus& status);
Result<RunStatus> read_status(std::string_view text);

// As lines to print.
std::vector<std::string> describe(const RunStatus& status);

// What the holder of a token may request from a run without becoming a member.

// Both throw Error if the run cannot be reached or its coordinator does not answer. A single-use
// token is not used up.

RunStatus ask_status(const Access& access);

// The checks of `thinwire doctor` (self_check.h), as lines to print. `overrides` as for joining;
// `memory_bytes`: most memory that the run may use here; 0: no limit. Throws UsageError if the run
// does not fit this machine.
std::vector<std::string> diagnose(const Access& access, const std::vector<std::string>& overrides,
                                  double memory_bytes);

}  // namespace thinwire::hosts
