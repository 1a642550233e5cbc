// What training with each method costs a group of members: bytes, time, energy, money, memory and
// loss, and the bottleneck. docs/planner.md has the formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/method/memory/memory.h"
#include "thinwire/plan/candidates.h"
#include "thinwire/plan/expected_loss.h"
#include "thinwire/plan/laws.h"
#include "thinwire/plan/members.h"

namespace thinwire::plan {

struct MethodCost {
  std::string method;
  std::string setting;
  bool runs = false;  // a registered method; else a schedule that is only simulated
  int64_t sync_every = 1;
  double sent_bytes = 0;  // by a member, per step
  double received_bytes = 0;
  bool exact = true;  // false: upper bounds
  // The bytes of one transfer (a fragment, or all of an exchange) over the computation time that
  // can hide it, at least a step's.
  double peak_bit_s = 0;
  double compute_seconds = 0;  // a step of the slowest member
  double line_seconds = 0;     // the largest transfer, on the slowest line
  double step_seconds = 0;     // mean over the run, including the transfers at its end
  double utilization = 1;      // share of it spent computing, mean over members
  double seconds = 0;          // all of train.steps
  double kilowatt_hours = 0;
  double price = 0;
  int64_t microbatch = 0;     // train.microbatch, or fewer rows if only these fit
  method::StepMemory memory;  // of a member with the most rows
  std::string too_small;      // the first member that lacks the memory; empty: none
  ExpectedLoss loss;
  std::string bottleneck;    // to be shown
  std::string name() const;  // method and setting, to be shown
};

// A recipe's facts that all candidates share.
struct PlannedModel {
  std::vector<TensorSpec> tensors;
  double parameters = 0;
  double non_embedding = 0;
  double flops_per_token = 0;
};
// An unknown vocabulary counts as data.vocabulary_size, or 258 if tokens are bytes.
PlannedModel planned_model(config::Recipe& recipe);

// If a step does not fit into every member's memory, fewer rows at once are tried. Throws
// UsageError if there are more members than rows in a step's batch.
MethodCost method_cost(Candidate candidate, std::span<const Member> members,
                       std::span<const MethodLaw> own_laws, double program_bytes);

// Which candidate to recommend, given the costs of all.
struct Recommendation {
  size_t index = 0;                  // into the costs
  std::vector<std::string> reasons;  // what it takes, what it is compared with, where it ends
};

// The lowest loss expected of a candidate that can run and fits into every member's memory;
// infinite if none is known.
double least_loss(std::span<const MethodCost> costs);

// Among the candidates that can run, fit into every member's memory and are expected to end at most
// `tolerance` nats behind `least`: the shortest time; among times within 1 %, the fewest bytes. A
// candidate whose loss is unknown never wins. nullopt if nothing is left. `least`: least_loss of
// these costs, or a lower one that other members could reach.
std::optional<Recommendation> recommend(std::span<const MethodCost> costs, double tolerance,
                                        double least);

}  // namespace thinwire::plan
