// thinwire join: takes part in a run of many hosts.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/cli/run_result.h"
#include "thinwire/hosts/join_run.h"

namespace thinwire::cli {
namespace {

struct JoinArguments {
  AccessArguments access;
  std::vector<std::string> overrides;
  double memory_bytes = 0;
  double row_seconds = 0;
};

void run_join(const JoinArguments& arguments) {
  const hosts::JoinResult result = hosts::join_run({.access = access_of(arguments.access),
                                                    .overrides = arguments.overrides,
                                                    .memory_bytes = arguments.memory_bytes,
                                                    .row_seconds = arguments.row_seconds,
                                                    .stop = &interrupts().any,
                                                    .on_start = [] { catch_interrupts(); }});
  if (result.outcome == hosts::JoinOutcome::kLeft) {
    throw Interrupted(
        fmt::format("left the run after step {}; the same command returns to it", result.steps));
  }
  print_run_result(result.summary, result.folder.string());
}

}  // namespace

void add_join(CLI::App& app) {
  auto* command = add_command(
      app, "join", "Takes part in a run of many hosts, or returns to it; Ctrl-C leaves it cleanly");
  const auto arguments = std::make_shared<JoinArguments>();
  add_access(*command, arguments->access);
  command->add_option("overrides", arguments->overrides,
                      "This machine's own recipe fields, table.field=value: run.dir, data.dir, "
                      "train.threads, train.device, train.precision, log.*, links.*");
  add_quantity(*command, "--memory", arguments->memory_bytes, kAmount, "B",
               "The most memory that the run may take here; 0: all there is");
  command
      ->add_option("--row-seconds", arguments->row_seconds,
                   "Take at least so many seconds for each row of a batch, to leave the machine to "
                   "others")
      ->check(CLI::NonNegativeNumber);
  add_quiet_flag(command);
  command->callback([arguments] { run_join(*arguments); });
}

}  // namespace thinwire::cli
