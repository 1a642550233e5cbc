// What training with each method would cost a group of machines, before anything is trained, as
// `thinwire plan` says (docs/planner.md has the formulas). Target thinwire::spec: it needs neither
// tensors nor sockets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/recipe.h"

namespace thinwire {

// A group of equal machines.
struct PlanMember {
  std::string name = "every member";
  std::string site = {};  // those of one site share its line; empty: each has its own
  int64_t count = 1;
  double flops = 0;         // FLOP/s that it achieves in training; or
  std::string gpu = {};     // its GPU or kind of Mac, such as "RTX 4090"
  double memory_bytes = 0;  // 0: unknown
  double up_bit_s = 10e6;
  double down_bit_s = 100e6;
  double delay_s = 0.02;  // one way
  double watts = 0;
  double price_per_hour = 0;
};

struct PlannedMethod {
  std::string method;     // a value of sync.method, or of a schedule that is only simulated
  std::string setting;    // how it differs from the recipe, "overlap = 1"; may be empty
  bool runs = false;      // false: only simulated
  double sent_bytes = 0;  // by a member, per step
  double received_bytes = 0;
  double step_seconds = 0;  // mean over the run
  double seconds = 0;       // all of train.steps
  double utilization = 1;   // share of it spent computing, mean over the members
  double kilowatt_hours = 0;
  double price = 0;
  double memory_bytes = 0;          // of a member
  bool fits = true;                 // into every member's memory
  std::optional<double> loss = {};  // expected, nats per token; nothing: unknown
  std::string loss_basis;           // what the expectation rests on, or why there is none
  std::string bottleneck;
};

struct RunPlan {
  std::vector<PlannedMethod> methods;
  std::optional<size_t> recommended = {};  // into methods
  std::vector<std::string> reasons;        // of the recommendation
  // Members without whom the recommended method finishes clearly sooner: the figures are without
  // them.
  std::vector<std::string> idle;
  // Methods that other fields of the recipe rule out, and why.
  std::vector<std::pair<std::string, std::string>> left_out;
};

// Compares all methods, each with the recipe's settings and variations of them. The model is that
// of [model], also where train.init names another one, which is not read. `tolerance`: the expected
// loss in nats that may be given up to save time. Throws UsageError naming the member whose speed
// is not given by exactly one of flops and gpu, and what the recipe or the members rule out.
RunPlan plan_run(const Recipe& recipe, const std::vector<PlanMember>& members,
                 double tolerance = 0.05);

}  // namespace thinwire
