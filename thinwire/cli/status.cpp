// thinwire status: the state of a run of many hosts.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/hosts/run_status.h"

namespace thinwire::cli {
namespace {

struct StatusArguments {
  AccessArguments access;
  bool json = false;
};

void run_status(const StatusArguments& arguments) {
  const hosts::RunStatus status = hosts::ask_status(access_of(arguments.access));
  if (arguments.json) {
    fmt::print("{}\n", hosts::print_status(status));
    return;
  }
  for (const std::string& line : hosts::describe(status)) fmt::print("{}\n", line);
}

}  // namespace

void add_status(CLI::App& app) {
  auto* command =
      add_command(app, "status", "Shows the state of a run of many hosts and of its members");
  const auto arguments = std::make_shared<StatusArguments>();
  add_access(*command, arguments->access);
  command->add_flag("--json", arguments->json, "Print one line of JSON instead");
  command->callback([arguments] { run_status(*arguments); });
}

}  // namespace thinwire::cli
