// A simulated run with faults by a seed. The same seed gives the same trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "simulated_run.h"

namespace thinwire::membership {

struct Outcome {
  std::string violation;  // of what must never happen; empty: nothing did
  double seconds = 0;     // of virtual time
  Sha256 trace;
  uint64_t records = 0;
  std::map<std::string, int> counts;  // of faults, and of what the ledger says about them
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  Outcome run();

 private:
  FakePlan draw_plan();
  RunSettings draw_settings();
  void plan_faults(double until);
  void fault();
  void member_fault(SimulatedMember& member);
  void store_fault();
  SimulatedMember& any_member() { return run_.member(rng_.below(run_.members())); }
  int running_members();

  const uint64_t evaluated_;
  const uint64_t parts_;  // both as of FakePlan
  Rng rng_;
  Network network_;
  const bool power_cuts_;
  const FakePlan plan_;
  SimulatedRun run_;
  Outcome outcome_;
};

}  // namespace thinwire::membership
