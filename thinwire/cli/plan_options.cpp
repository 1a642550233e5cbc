#include <fmt/format.h>

#include <CLI/App.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/plan.h"

namespace thinwire::cli {

CLI::Option* add_quantity(CLI::App& app, const std::string& flag, double& value,
                          const std::string& unit, const std::string& help) {
  const auto assign = [&value, flag, unit](const std::string& text) {
    try {
      value = parse_quantity(text, unit);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", flag, error.what()));
    }
  };
  const std::string shown = value == 0 ? "" : fmt::format("; default {}", format_count(value));
  return app
      .add_option_function<std::string>(
          flag, assign, fmt::format("{} ({}{})", help, unit.empty() ? "number" : unit, shown))
      ->type_name("QUANTITY");
}

void add_output(CLI::App& app, PlanOutput& output, const std::string& drawn) {
  app.add_flag("--json", output.json, "As JSON, in full precision");
  app.add_option("--plot", output.plot, fmt::format("Draw {} into this .png or .svg", drawn));
}

std::string format_rate(double bit_s) {
  return fmt::format("{:.3g} {}bit/s", bit_s / (bit_s < 1e9 ? 1e6 : 1e9), bit_s < 1e9 ? 'M' : 'G');
}

}  // namespace thinwire::cli
