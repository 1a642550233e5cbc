// thinwire bench: what this machine can do.
#include <CLI/App.hpp>

#include "thinwire/cli/command.h"

namespace thinwire::cli {

void add_bench(CLI::App& app) {
  auto* command = add_command(app, "bench", "Measures what this machine can do");
  command->require_subcommand(1);
  add_bench_codec(*command);
  add_bench_machine(*command);
  add_bench_speed(*command);
}

}  // namespace thinwire::cli
