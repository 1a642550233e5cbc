#include <fmt/format.h>

#include <CLI/App.hpp>

#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"

namespace thinwire::cli {

void add_output(CLI::App& app, PlanOutput& output, const std::string& drawn) {
  app.add_flag("--json", output.json, "Print JSON in full precision");
  add_plot(app, output.plot, fmt::format("Draw {} into this .png or .svg", drawn));
}

std::string format_rate(double bit_s) {
  return fmt::format("{:.3g} {}bit/s", bit_s / (bit_s < 1e9 ? 1e6 : 1e9), bit_s < 1e9 ? 'M' : 'G');
}

}  // namespace thinwire::cli
