#include <CLI/CLI.hpp>

#include "thinwire/cli/command.h"
#include "thinwire/events/progress.h"

namespace thinwire::cli {

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help) {
  return parent.add_subcommand(name, help);
}

void add_quiet_flag(CLI::App* command) {
  command->add_flag_callback(
      "-q,--quiet", [] { events::set_quiet(); }, "Show only errors and the result, no progress");
}

void add_commands(CLI::App& app) {
  add_prepare(app);
  add_train(app);
  add_serve(app);
  add_join(app);
  add_relay(app);
  add_status(app);
  add_keys(app);
  add_doctor(app);
  add_sweep(app);
  add_compare(app);
  add_inspect(app);
  add_plan(app);
  add_generate(app);
  add_eval(app);
  add_logits(app);
  add_export(app);
  add_import(app);
  add_recipe(app);
  add_bench(app);
  add_completion(app);
}

}  // namespace thinwire::cli
