#include "thinwire/plan/eager_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace thinwire::plan {
namespace {

constexpr int kGridPoints = 50;
constexpr double kGiga = 1e9;
constexpr double kHalfDigit = 0.05;
constexpr double kSecondsPerHour = 3600;

// Table 5, Gbit/s for kEagerTargets; rows as eager_schedules(), blocks as eager_models().
constexpr double kTable5[3][6][5] = {
    {{86.8, 152.6, 184.2, 222.3, 569.0},
     {1.4, 5.2, 9.1, 16.0, 28.1},
     {2.4, 3.6, 4.3, 4.3, 4.3},
     {0.4, 0.9, 1.7, 2.0, 3.0},
     {1.1, 2.0, 2.0, 2.0, 2.4},
     {0.1, 0.2, 0.2, 0.2, 0.2}},
    {{104.8, 222.3, 222.3, 268.3, 471.5},
     {1.7, 5.2, 9.1, 13.3, 19.3},
     {1.4, 2.4, 2.4, 3.0, 3.0},
     {0.4, 0.9, 1.4, 1.4, 1.7},
     {0.7, 1.1, 1.4, 1.4, 1.4},
     {0.1, 0.2, 0.2, 0.3, 0.3}},
    {{184.2, 323.8, 390.7, 390.7, 471.5},
     {2.4, 6.2, 9.1, 11.0, 19.3},
     {0.9, 1.7, 2.0, 2.0, 2.0},
     {0.5, 0.9, 1.1, 1.1, 1.4},
     {0.5, 0.8, 0.9, 0.9, 0.9},
     {0.2, 0.3, 0.3, 0.3, 0.4}},
};

// The paper's entries differ from an exact grid in the last digit (0.9 for 0.954, 3.0 for 2.947).
bool prints_as(double value, double printed) {
  return std::abs(value - printed) <= kHalfDigit + 0.02 * printed;
}

EagerCell compare(EagerCell cell, const std::vector<double>& grid,
                  const SimulationAssumptions& assumptions) {
  cell.predicted_gbit_s =
      required_bandwidth(cell.model, cell.schedule, cell.target, assumptions) / kGiga;
  cell.min_gbit_s = min_bandwidth(cell.model, cell.schedule, cell.target, assumptions) / kGiga;
  const auto enough =
      std::ranges::find_if(grid, [&](double rate) { return rate >= cell.predicted_gbit_s; });
  const auto place = static_cast<int>(std::min(enough, grid.end() - 1) - grid.begin());
  cell.grid_gbit_s = grid[static_cast<size_t>(place)];
  cell.impossible = cell.min_gbit_s > cell.paper_gbit_s + kHalfDigit;
  cell.grid_distance = kGridPoints;
  for (int i = 0; i < kGridPoints; ++i) {
    const double rate = grid[static_cast<size_t>(i)];
    if (!prints_as(rate, cell.paper_gbit_s)) continue;
    if (std::abs(place - i) < std::abs(cell.grid_distance)) cell.grid_distance = place - i;
  }
  return cell;
}

}  // namespace

std::vector<double> eager_grid() {
  std::vector<double> grid;
  for (int i = 0; i < kGridPoints; ++i) {
    grid.push_back(std::pow(10.0, -1 + 4.0 * i / (kGridPoints - 1)));
  }
  return grid;
}

std::vector<EagerCell> eager_cells(const SimulationAssumptions& assumptions) {
  const auto models = eager_models();
  const auto schedules = eager_schedules();
  const auto grid = eager_grid();
  std::vector<EagerCell> cells;
  for (size_t m = 0; m < models.size(); ++m) {
    for (size_t s = 0; s < schedules.size(); ++s) {
      for (size_t t = 0; t < kEagerTargets.size(); ++t) {
        EagerCell cell{models[m], schedules[s], kEagerTargets[t], kTable5[m][s][t]};
        cells.push_back(compare(std::move(cell), grid, assumptions));
      }
    }
  }
  return cells;
}

std::vector<EagerHours> eager_hours(const SimulationAssumptions& assumptions) {
  struct Row {
    size_t schedule;  // of eager_schedules()
    double tokens, hours_fast, hours_slow, terabytes;
  };
  constexpr Row kTable1[] = {
      {0, 25e9, 0.67, 109, 441},   {0, 100e9, 2.7, 438, 1767}, {0, 250e9, 6.75, 1097, 4418},
      {3, 25e9, 0.67, 0.88, 1.10}, {3, 100e9, 2.7, 3.5, 4.42}, {3, 250e9, 6.75, 8.75, 11.05},
      {5, 25e9, 0.67, 0.67, 1.10}, {5, 100e9, 2.7, 2.7, 4.42}, {5, 250e9, 6.75, 6.75, 11.05},
  };
  const SimulatedModel model = eager_models().front();
  const auto schedules = eager_schedules();
  std::vector<EagerHours> rows;
  for (const Row& row : kTable1) {
    const SyncSchedule& schedule = schedules[row.schedule];
    const double steps = row.tokens / kEagerBatchTokens;
    EagerHours hours{schedule.name, row.tokens, row.hours_fast, row.hours_slow, row.terabytes};
    hours.hours_fast = steps * model.step_seconds / kSecondsPerHour;
    hours.hours_slow = hours.hours_fast / utilization(model, schedule, kGiga, assumptions);
    hours.terabytes = steps * model.parameters * schedule.bits / 8 / schedule.sync_every / 1e12;
    hours.terabytes_counted = kEagerCopies * hours.terabytes;
    rows.push_back(hours);
  }
  return rows;
}

}  // namespace thinwire::plan
