// What the subcommands of `thinwire plan` share.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace thinwire::cli {

// `thinwire plan` without a subcommand.
void add_plan_methods(CLI::App& plan);
void add_plan_coverage(CLI::App& plan);
void add_plan_distro(CLI::App& plan);
void add_plan_efficiency(CLI::App& plan);
void add_plan_fit(CLI::App& plan);
void add_plan_loss(CLI::App& plan);
void add_plan_memory(CLI::App& plan);
void add_plan_utilization(CLI::App& plan);

struct PlanOutput {
  bool json = false;
  std::string plot;  // file to draw into; empty: none
};
// --json and --plot.
void add_output(CLI::App& app, PlanOutput& output, const std::string& drawn);

// "800 Mbit/s", "0.40 Gbit/s": a line rate.
std::string format_rate(double bit_s);

}  // namespace thinwire::cli
