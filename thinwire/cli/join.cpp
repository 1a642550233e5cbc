// thinwire join: takes part in a run of many hosts.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/cli/run_result.h"
#include "thinwire/config/sync_section.h"
#include "thinwire/hosts/join_run.h"

namespace thinwire::cli {
namespace {

struct JoinArguments {
  MachineArguments machine;
  double row_seconds = 0;
  bool audits = false;
  std::string site;
  double wait_s = config::SyncSection().timeout_s;
};

void run_join(const JoinArguments& arguments) {
  hosts::Access access = access_of(arguments.machine.access);
  access.wait_s = arguments.wait_s;
  const hosts::JoinResult result = hosts::join_run({.access = std::move(access),
                                                    .overrides = arguments.machine.overrides,
                                                    .memory_bytes = arguments.machine.memory_bytes,
                                                    .row_seconds = arguments.row_seconds,
                                                    .audits = arguments.audits,
                                                    .site = arguments.site,
                                                    .stop = &interrupts().any,
                                                    .on_start = [] { catch_interrupts(); }});
  if (result.outcome == hosts::JoinOutcome::kElsewhere) return;
  if (result.outcome == hosts::JoinOutcome::kLeft) {
    report_stop(
        fmt::format("left the run after step {}; the same command returns to it", result.steps),
        result.ranks > 1);
  }
  print_run_result(result.summary, result.folder.string());
}

}  // namespace

void add_join(CLI::App& app) {
  auto* command = add_command(
      app, "join", "Takes part in a run of many hosts, or returns to it; Ctrl-C leaves it cleanly");
  const auto arguments = std::make_shared<JoinArguments>();
  add_machine_arguments(*command, arguments->machine);
  command
      ->add_option(
          "--row-seconds", arguments->row_seconds,
          "Minimum seconds per row of a batch, which leaves the machine time for other work")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--audit", arguments->audits,
                    "Checks what members send instead of training; needs an auditor's token");
  command->add_option("--site", arguments->site,
                      "Site whose server keeps this member's payloads, in a run with --sites "
                      "(default: the host of the address)");
  add_wait(*command, arguments->wait_s);
  add_quiet_flag(command);
  command->callback([arguments] { run_join(*arguments); });
}

}  // namespace thinwire::cli
