#include <CLI/CLI.hpp>
#include <initializer_list>

#include "thinwire/cli/command.h"
#include "thinwire/events/progress.h"

namespace thinwire::cli {
namespace {

using Add = void (*)(CLI::App& app);

// Under one heading of --help.
void add_group(CLI::App& app, const char* heading, std::initializer_list<Add> commands) {
  const auto ungrouped = [](const CLI::App* one) { return one->get_group() == "Subcommands"; };
  for (const Add add : commands) add(app);
  for (CLI::App* command : app.get_subcommands(ungrouped)) command->group(heading);
}

}  // namespace

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help) {
  return parent.add_subcommand(name, help);
}

void add_quiet_flag(CLI::App* command) {
  command->add_flag_callback(
      "-q,--quiet", [] { events::set_quiet(); }, "Show only errors and the result, no progress");
}

void add_commands(CLI::App& app) {
  add_group(app, "Train a model", {add_prepare, add_train, add_sweep, add_compare, add_inspect});
  add_group(app, "Share a run among many hosts",
            {add_serve, add_join, add_status, add_relay, add_keys, add_doctor});
  add_group(app, "Use a model",
            {add_generate, add_chat, add_eval, add_export, add_import, add_logits});
  add_group(app, "Plan and set up", {add_init, add_plan, add_recipe, add_bench, add_completion});
}

}  // namespace thinwire::cli
