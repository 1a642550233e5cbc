// Compute utilization, the share of its time that a worker computes, found by simulating when
// layers compute and when their bytes are sent: data-parallel training, DiLoCo and its streaming
// and overlapped forms (Douillard et al., "Streaming DiLoCo", arXiv 2501.18512; Kale et al., "Eager
// Updates For Overlapped Communication and Computation in DiLoCo", arXiv 2502.12996, figure 3 and
// table 5). docs/planner.md says what the papers leave open and what is assumed instead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/links/links.h"

namespace thinwire::plan {

// A model as the simulation sees it: equal layers that compute one after another.
struct SimulatedModel {
  std::string name;
  double parameters = 1e9;
  int layers = 24;
  double step_seconds = 0.1;  // pure computation, forward and backward
};

// When a round's bytes must have arrived.
enum class Wait : uint8_t {
  kStepEnd,  // before the step that sends them ends (data-parallel)
  kAtOnce,   // right after the sending step; nothing computes meanwhile (DiLoCo)
  kNextUse,  // before the layer's forward pass, `overlap_steps` steps after the next one
};

struct SyncSchedule {
  std::string name;
  double bits = 16;         // per parameter, on the wire
  int sync_every = 1;       // H: steps between two exchanges of the same layer
  int fragment_layers = 0;  // layers exchanged together; 0: all. Fragments are strided, and
                            // staggered evenly over the H steps
  Wait wait = Wait::kStepEnd;
  int overlap_steps = 0;
};

// What the papers leave open.
struct SimulationAssumptions {
  double forward_share = 1.0 / 3;  // of a step's computation
  double payload_factor = 1;       // how often each parameter crosses the link in one exchange
  double delay_s = 0;              // from the last byte's departure to its use
};

// Throws UsageError naming an invalid field.
void check_model(const SimulatedModel& model);

// Share of time spent computing in the steady state, in (0, 1]; never falls with more bandwidth.
// Layers are handed to the link as their backward passes end, and are sent one after another at
// `bit_s` > 0.
double utilization(const SimulatedModel& model, const SyncSchedule& schedule, double bit_s,
                   const SimulationAssumptions& assumptions = {});

// The least bandwidth, in bit/s and to one part in 1e4, with a utilization of at least `target`, in
// (0, 1).
double required_bandwidth(const SimulatedModel& model, const SyncSchedule& schedule, double target,
                          const SimulationAssumptions& assumptions = {});

// No schedule can reach the target below this: the bits of a round over the time of H steps at that
// utilization.
double min_bandwidth(const SimulatedModel& model, const SyncSchedule& schedule, double target,
                     const SimulationAssumptions& assumptions = {});

// The eager paper's table 5: its models, and its methods in its order.
std::vector<SimulatedModel> eager_models();
std::vector<SyncSchedule> eager_schedules();
// The same schedules without overlap and streaming, for comparison: DiLoCo, H = 100, bf16.
SyncSchedule vanilla_diloco(int sync_every);

}  // namespace thinwire::plan
