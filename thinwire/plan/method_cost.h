// What training by each method costs a group of members: bytes, time, energy, money, memory and
// loss, and what is slow about it. docs/planner.md has the formulas.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/method/memory.h"
#include "thinwire/plan/candidates.h"
#include "thinwire/plan/laws.h"
#include "thinwire/plan/members.h"

namespace thinwire::plan {

struct MethodCost {
  std::string method;
  std::string setting;
  bool runs = false;  // a registered method; else a schedule that is only simulated
  int64_t sync_every = 1;
  double sent_bytes = 0;  // by a member, a step
  double received_bytes = 0;
  bool exact = true;  // else bounds from above
  // What is in flight at once (a fragment, or all of an exchange) over the computation that may
  // hide it, at least a step's.
  double peak_bit_s = 0;
  double compute_seconds = 0;  // a step of the slowest member
  double line_seconds = 0;     // the largest of what is in flight at once, on the slowest line
  double step_seconds = 0;     // mean of the run, what is in flight at its end included
  double utilization = 1;      // share of it that members compute, their mean
  double seconds = 0;          // all of train.steps
  double kilowatt_hours = 0;
  double price = 0;
  int64_t microbatch = 0;     // train.microbatch, or fewer rows where only these fit
  method::StepMemory memory;  // of each member
  std::string too_small;      // the first member that it does not fit into; empty: none
  ExpectedLoss loss;
  std::string bottleneck;    // for people
  std::string name() const;  // method and setting, for people
};

// A recipe's facts that all candidates share.
struct PlannedModel {
  std::vector<TensorSpec> tensors;
  double parameters = 0;
  double non_embedding = 0;
  double flops_per_token = 0;
};
// An unknown vocabulary counts as data.vocabulary_size, or 258 where tokens are bytes.
PlannedModel planned_model(config::Recipe& recipe);

// Where a step does not fit into every member's memory, fewer rows at once are tried. Throws
// UsageError where there are more members than rows in a step's batch.
MethodCost method_cost(Candidate candidate, std::span<const Member> members,
                       std::span<const MethodLaw> own_laws, double program_bytes);

}  // namespace thinwire::plan
