// The subcommands of `thinwire`, one file each. add_<name> declares the subcommand with its options
// and a callback that does the work. Callbacks throw UsageError for wrong use and Error for
// failures; results go to stdout, messages and progress to stderr.
//
// To keep compilation fast, files of this folder include CLI/App.hpp, not CLI/CLI.hpp, and only
// add_command below makes subcommands: either would compile half of CLI11 again.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace thinwire::cli {

void add_bench(CLI::App& app);
void add_bench_codec(CLI::App& bench);
void add_bench_machine(CLI::App& bench);
void add_bench_speed(CLI::App& bench);
void add_chat(CLI::App& app);
void add_compare(CLI::App& app);
void add_completion(CLI::App& app);
void add_doctor(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_generate(CLI::App& app);
void add_import(CLI::App& app);
void add_init(CLI::App& app);
void add_inspect(CLI::App& app);
void add_join(CLI::App& app);
void add_keys(CLI::App& app);
void add_logits(CLI::App& app);
void add_plan(CLI::App& app);
void add_prepare(CLI::App& app);
void add_recipe(CLI::App& app);
void add_relay(CLI::App& app);
void add_serve(CLI::App& app);
void add_status(CLI::App& app);
void add_sweep(CLI::App& app);
void add_train(CLI::App& app);

// Declares a subcommand of `parent`, which owns it.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help);
// Adds the flag --quiet to a command that shows progress: only errors and the result are shown.
void add_quiet_flag(CLI::App* command);

// Declares every subcommand, in the order in which --help lists them.
void add_commands(CLI::App& app);

}  // namespace thinwire::cli
