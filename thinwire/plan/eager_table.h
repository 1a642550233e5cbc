// Table 5 and table 1 of "Eager Updates For Overlapped Communication and Computation in DiLoCo"
// (arXiv 2502.12996) beside our simulation.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "thinwire/plan/utilization.h"

namespace thinwire::plan {

inline constexpr std::array<double, 5> kEagerTargets = {0.5, 0.8, 0.9, 0.95, 0.99};

// The bandwidths the paper simulated, Gbit/s: 50 from 0.1 to 1000, evenly spaced in the logarithm.
// It prints one decimal.
std::vector<double> eager_grid();

struct EagerCell {
  SimulatedModel model;
  SyncSchedule schedule;
  double target = 0;
  double paper_gbit_s = 0;      // as printed
  double predicted_gbit_s = 0;  // required_bandwidth()
  double grid_gbit_s = 0;       // the first sufficient entry of the grid
  int grid_distance = 0;        // grid entries away from the nearest one that prints as the paper's
  double min_gbit_s = 0;        // min_bandwidth()
  bool impossible = false;      // min_gbit_s exceeds anything that rounds to the paper's

  bool agrees() const { return !impossible && grid_distance >= -1 && grid_distance <= 1; }
};

// All 90 cells, in the paper's order.
std::vector<EagerCell> eager_cells(const SimulationAssumptions& assumptions = {});

// One row of table 1: the 1 B model trained on this many tokens.
struct EagerHours {
  std::string method;
  double tokens = 0;
  double paper_hours_fast = 0;  // with a fast network
  double paper_hours_slow = 0;  // at 1 Gbit/s
  double paper_terabytes = 0;
  double hours_fast = 0;
  double hours_slow = 0;
  double terabytes = 0;          // one member's payload, each parameter once
  double terabytes_counted = 0;  // times kEagerCopies
};

// Tokens per step and the number of payloads that table 1's numbers imply; it states neither.
inline constexpr double kEagerBatchTokens = 1.024e6;
inline constexpr double kEagerCopies = 9;

std::vector<EagerHours> eager_hours(const SimulationAssumptions& assumptions = {});

}  // namespace thinwire::plan
