// thinwire join: takes part in a run of many hosts.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/config/sections.h"
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

// What fails once a signal has asked for the end, such as a transfer, has failed because of it.
hosts::JoinResult join(const hosts::JoinOptions& options) {
  try {
    return hosts::join_run(options);
  } catch (const Error& error) {
    if (!interrupts().any) throw;
    const bool is_rank =
        std::ranges::find(options.overrides, "train.launcher=mpi") != options.overrides.end();
    report_stop(error.what(), is_rank);
  }
}

void run_join(const JoinArguments& arguments) {
  hosts::Access access = access_of(arguments.machine.access);
  access.wait_s = arguments.wait_s;
  const hosts::JoinResult result = join({.access = std::move(access),
                                         .overrides = arguments.machine.overrides,
                                         .memory_bytes = arguments.machine.memory_bytes,
                                         .row_seconds = arguments.row_seconds,
                                         .audits = arguments.audits,
                                         .site = arguments.site,
                                         .stop = &interrupts().any,
                                         .on_start = [] { catch_interrupts(); }});
  if (result.outcome == hosts::JoinOutcome::kElsewhere) return;
  if (result.outcome == hosts::JoinOutcome::kLeft) {
    const std::string when =
        result.steps == 0 ? "before its first step" : fmt::format("after step {}", result.steps);
    report_stop(fmt::format("left the run {}; the same command returns to it", when),
                result.ranks > 1);
  }
  print_run_result(result.summary, result.folder.string(), hosts::kMemberRows);
}

}  // namespace

void add_join(CLI::App& app) {
  auto* command = add_command(
      app, "join", "Takes part in a run of many hosts, or returns to it; Ctrl-C leaves it cleanly");
  const auto arguments = std::make_shared<JoinArguments>();
  add_machine_arguments(*command, arguments->machine);
  add_quantity(*command, "--row-seconds", arguments->row_seconds, kDuration, "s",
               "Minimum time per row of a batch, which leaves the machine time for other work");
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
