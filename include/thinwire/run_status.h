// The state of a run of many hosts, as `thinwire status` shows it. Target thinwire::run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

struct MemberStatus {
  int id = 0;
  std::string key;      // the first characters of its public key
  std::string machine;  // what its owner calls it; may be empty
  std::string phase;    // "active", "joining" and others: docs/hosts.md, "Phases of a member"
  double silent_seconds = -1;  // since it was last heard; -1: not since the coordinator started
  double step_seconds = 0;     // its latest time to compute its rows of a step; 0: not known
  // What it has contributed so far and counted: rows, bytes sent, and hours of computing.
  uint64_t rows = 0;
  uint64_t bytes = 0;
  double hours = 0;
  std::string refused;  // why its last contribution that was refused did not count; else empty
};

struct RunStatus {
  std::string name;    // run.name
  std::string method;  // sync.method
  uint64_t step = 0;   // training steps that are completed, of `steps`
  uint64_t steps = 0;
  bool finished = false;
  std::string digest;     // of the final weights: 16 hexadecimal digits; empty: not known
  std::string waits_for;  // what the run waits for, in words; empty: nothing unusual
  std::vector<MemberStatus> members;
  uint64_t left_out = 0;  // further members, for which the answer had no room
};

// Asks the coordinator of a run. `address` and `token` are those that members join with; a token
// for one use is not used up. Throws UsageError if one of them is malformed, and Error if the run
// cannot be reached or its coordinator does not answer within `wait_s` seconds more than a usual
// answer takes.
RunStatus ask_run_status(const std::string& address, const std::string& token, double wait_s = 0);

}  // namespace thinwire
