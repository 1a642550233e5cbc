// thinwire join: takes part in a run of many hosts.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
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
#include "thinwire/train/model_socket.h"

namespace thinwire::cli {
namespace {

struct JoinArguments {
  MachineArguments machine;
  double row_seconds = 0;
  bool audits = false;
  std::string site;
  double wait_s = config::SyncSection().timeout_s;
  int model_socket = -1;
  bool json = false;
};

bool is_rank(const hosts::JoinOptions& options) {
  return std::ranges::find(options.overrides, "train.launcher=mpi") != options.overrides.end();
}

// What fails once a signal has asked for the end, such as a transfer, has failed because of it.
hosts::JoinResult join(const hosts::JoinOptions& options) {
  try {
    return hosts::join_run(options);
  } catch (const Error& error) {
    if (!interrupts().any) throw;
    report_stop(error.what(), is_rank(options));
  }
}

// For the program at the other end of a socket, which computes the model and hears the result.
void join_for_peer(hosts::JoinOptions options, int model_socket) {
  train::ModelSocket socket(model_socket, interrupts().any, [] { end_by_signal(SIGTERM); });
  socket.report([&] {
    if (is_rank(options)) {
      throw UsageError("[train] launcher must be threads with --model-socket, got \"mpi\"");
    }
    options.own_model = &socket.model();
    options.listener = &socket;
    options.display = socket.display();
    options.stop = &socket.stop();
    options.on_start = [&] {
      catch_interrupts();
      socket.begin();
    };
    hosts::JoinResult result = hosts::join_run(options);
    return events::RunEnd{result.steps, result.outcome == hosts::JoinOutcome::kFinished,
                          result.folder.string(), std::move(result.summary)};
  });
}

void run_join(const JoinArguments& arguments) {
  hosts::Access access = access_of(arguments.machine.access);
  access.wait_s = arguments.wait_s;
  const hosts::JoinOptions options = {.access = std::move(access),
                                      .overrides = arguments.machine.overrides,
                                      .memory_bytes = arguments.machine.memory_bytes,
                                      .row_seconds = arguments.row_seconds,
                                      .audits = arguments.audits,
                                      .site = arguments.site,
                                      .stop = &interrupts().any,
                                      .on_start = [] { catch_interrupts(); }};
  if (arguments.model_socket >= 0) return join_for_peer(options, arguments.model_socket);
  const hosts::JoinResult result = join(options);
  if (result.outcome == hosts::JoinOutcome::kElsewhere) return;
  if (result.outcome == hosts::JoinOutcome::kLeft) {
    const std::string when =
        result.steps == 0 ? "before its first step" : fmt::format("after step {}", result.steps);
    report_stop(fmt::format("left the run {}; the same command returns to it", when),
                result.ranks > 1);
  }
  if (arguments.json) {
    write_output(
        events::print_run_end({result.steps, true, result.folder.string(), result.summary}) + "\n");
  } else {
    print_run_result(result.summary, result.folder.string(), hosts::kMemberRows);
  }
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
  add_model_socket(*command, arguments->model_socket);
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  add_quiet_flag(command);
  command->callback([arguments] { run_join(*arguments); });
}

}  // namespace thinwire::cli
