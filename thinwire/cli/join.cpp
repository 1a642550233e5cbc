// thinwire join: takes part in a run of many hosts.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/config/sections.h"
#include "thinwire/hosts/energy.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/join_run.h"
#include "thinwire/links/links.h"
#include "thinwire/train/model_socket.h"

namespace thinwire::cli {
namespace {

struct JoinArguments {
  MachineArguments machine;
  double row_seconds = 0;
  bool audits = false;
  std::string data;
  double most_epsilon = 0;
  std::string site;
  std::string name;
  std::string hours, pause_when;
  links::Link limits;
  hosts::EnergyRules energy;
  double cpus = 1;
  int nice = 0;
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
    return events::RunResult{result.steps, result.outcome == hosts::JoinOutcome::kFinished,
                             result.folder.string(), std::move(result.summary)};
  });
}

hosts::PauseRules pauses_of(const JoinArguments& arguments) {
  hosts::PauseRules rules;
  if (!arguments.hours.empty()) rules.hours = hosts::parse_hours(arguments.hours);
  hosts::parse_pause_when(arguments.pause_when, rules);
  if (rules.busy && arguments.model_socket >= 0) {
    throw UsageError(
        "--pause-when must be without busy for a model of another process, whose computing would "
        "count as others'");
  }
  return rules;
}

// The threads of a share of the cores, unless they are given.
std::vector<std::string> overrides_of(const JoinArguments& arguments) {
  std::vector<std::string> overrides = arguments.machine.overrides;
  if (arguments.cpus == 1) return overrides;
  const auto given = std::ranges::find_if(
      overrides, [](const std::string& one) { return one.starts_with("train.threads="); });
  if (given != overrides.end()) {
    throw UsageError(fmt::format("--cpus and {} exclude each other", *given));
  }
  const auto threads = static_cast<int>(arguments.cpus * available_cores());
  overrides.push_back(fmt::format("train.threads={}", std::max(1, threads)));
  return overrides;
}

void run_join(const JoinArguments& arguments) {
  if (const std::string why = hosts::why_no_machine_name(arguments.name); !why.empty()) {
    throw UsageError(fmt::format("--name \"{}\": {}", arguments.name, why));
  }
  const hosts::PauseRules pauses = pauses_of(arguments);
  const std::vector<std::string> overrides = overrides_of(arguments);
  if (arguments.nice > 0) (void)setpriority(PRIO_PROCESS, 0, arguments.nice);
  hosts::Access access = access_of(arguments.machine.access);
  access.wait_s = arguments.wait_s;
  access.limits = arguments.limits;
  access.approach->check_limits(access.limits);
  const hosts::JoinOptions options = {.access = std::move(access),
                                      .overrides = overrides,
                                      .memory_bytes = arguments.machine.memory_bytes,
                                      .row_seconds = arguments.row_seconds,
                                      .audits = arguments.audits,
                                      .own_text = arguments.data,
                                      .most_epsilon = arguments.most_epsilon,
                                      .site = arguments.site,
                                      .machine = arguments.name,
                                      .pauses = pauses,
                                      .energy = arguments.energy,
                                      .stop = &interrupts().any,
                                      .on_start = [] { catch_interrupts(); },
                                      .display = events::terminal_display()};
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
    write_output(events::result_line({result.steps, true, result.folder.string(), result.summary}) +
                 "\n");
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
  command->add_option(
      "--data", arguments->data,
      "In a run whose members train on texts of their own (data.own): this one's, "
      "as a file or folder of text, a recipe whose [data] describes it, or a folder "
      "that `thinwire prepare` has made; it never leaves this machine");
  add_number(*command, "--epsilon", arguments->most_epsilon, {.min = 0, .max = 1e6, .above = true},
             "In such a run: refuses to take part if others could learn more of this member's text "
             "than this epsilon, by the run's own delta, and leaves before they do");
  command->add_option("--site", arguments->site,
                      "Site whose server keeps this member's payloads, in a run with --sites "
                      "(default: the host of the address)");
  command->add_option("--name", arguments->name,
                      "What others see of this machine in `thinwire status`, on the page and in "
                      "messages; what it says when it joins for the first time holds (default: its "
                      "host name)");
  command->add_option("--hours", arguments->hours,
                      "Times of day between which it computes, such as 22-7 or 8:30-17; it leaves "
                      "the run meanwhile and returns by itself");
  command->add_option("--pause-when", arguments->pause_when,
                      "When it leaves the run for a while: busy (other programs use a quarter of "
                      "the processor), battery, metered, or several of them with commas");
  add_number(*command, "--cpus", arguments->cpus, {.min = 0, .max = 1, .above = true},
             "Share of the cores that it computes with, by train.threads; at least one core");
  add_count(*command, "--nice", arguments->nice, 0, 19,
            "Lets other programs go first: 19 only takes what they leave");
  add_quantity(*command, "--up", arguments->limits.up_bit_s, kRate, "bit/s",
               "Most that it sends, such as 5Mbps, so that the line is free for others");
  add_quantity(*command, "--down", arguments->limits.down_bit_s, kRate, "bit/s",
               "Most that it receives");
  add_quantity(*command, "--watts", arguments->energy.watts, kAmount, "W",
               "Power that this machine draws while it computes, for what it has contributed "
               "(default: measured where the machine counts it)");
  add_quantity(*command, "--grid", arguments->energy.grid_g_kwh, kAmount, "g/kWh",
               "CO2 of a kilowatt-hour here, for what it has contributed");
  add_wait(*command, arguments->wait_s);
  add_model_socket(*command, arguments->model_socket);
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  add_quiet_flag(command);
  command->callback([arguments] { run_join(*arguments); });
}

}  // namespace thinwire::cli
