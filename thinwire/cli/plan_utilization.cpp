// thinwire plan utilization: the eager-updates paper's table 5 beside our simulation.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "thinwire/cli/plan.h"
#include "thinwire/cli/table.h"
#include "thinwire/plan/eager_table.h"

namespace thinwire::cli {
namespace {

struct Arguments {
  bool json = false;
};

nlohmann::ordered_json as_json(const std::vector<plan::EagerCell>& cells) {
  auto array = nlohmann::ordered_json::array();
  for (const plan::EagerCell& cell : cells) {
    array.push_back({{"model", cell.model.name},
                     {"method", cell.schedule.name},
                     {"utilization", cell.target},
                     {"paper_gbit_s", cell.paper_gbit_s},
                     {"predicted_gbit_s", cell.predicted_gbit_s},
                     {"grid_gbit_s", cell.grid_gbit_s},
                     {"least_gbit_s", cell.least_gbit_s},
                     {"steps_off", cell.steps_off},
                     {"impossible", cell.impossible}});
  }
  return array;
}

std::string verdict(const plan::EagerCell& cell) {
  if (cell.impossible) return "impossible: payload over time is more";
  return cell.agrees() ? "within one step" : fmt::format("{:+} steps of the grid", cell.steps_off);
}

void print_text(const std::vector<plan::EagerCell>& cells) {
  Table table{{{"model", true},
               {"method", true},
               {"utilisation"},
               {"paper\nGbit/s"},
               {"ours\nGbit/s"},
               {"payload /\ntime"},
               {"", true}},
              {}};
  for (const bool impossible : {true, false}) {
    for (const plan::EagerCell& cell : cells) {
      if (cell.impossible != impossible) continue;
      table.rows.push_back({cell.model.name, cell.schedule.name, number_cell(cell.target, 2),
                            number_cell(cell.paper_gbit_s, 1),
                            number_cell(cell.predicted_gbit_s, 2),
                            number_cell(cell.least_gbit_s, 2), verdict(cell)});
    }
  }
  fmt::print("{}", table.terminal());
}

void run(const Arguments& arguments) {
  const auto cells = plan::eager_cells();
  if (arguments.json) {
    fmt::print("{}\n", as_json(cells).dump(2));
  } else {
    print_text(cells);
  }
}

}  // namespace

void add_plan_utilization(CLI::App& plan) {
  auto* command = plan.add_subcommand(
      "utilization", "Bandwidth for a compute utilisation: the eager-updates paper's table 5");
  const auto arguments = std::make_shared<Arguments>();
  command->add_flag("--json", arguments->json, "As JSON, in full precision");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace thinwire::cli
