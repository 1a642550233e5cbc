// thinwire plan: what a run will cost, which method suits which links.
#include "thinwire/cli/plan/plan.h"

#include <CLI/App.hpp>

#include "thinwire/cli/command.h"

namespace thinwire::cli {

void add_plan(CLI::App& app) {
  auto* command = add_command(app, "plan", "Predicts what runs cost, before they start");
  command->require_subcommand(0, 1);
  add_plan_methods(*command);
  add_plan_coverage(*command);
  add_plan_distro(*command);
  add_plan_efficiency(*command);
  add_plan_fit(*command);
  add_plan_loss(*command);
  add_plan_memory(*command);
  add_plan_utilization(*command);
}

}  // namespace thinwire::cli
