// thinwire doctor: checks this machine before it joins a run.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/cli/command.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/hosts/run_status.h"

namespace thinwire::cli {
namespace {

void run_doctor(const MachineArguments& arguments) {
  const std::vector<std::string> lines =
      hosts::diagnose(access_of(arguments.access), arguments.overrides, arguments.memory_bytes);
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto* command = add_command(
      app, "doctor", "Checks link, clock, memory and speed of this machine against a run's needs");
  const auto arguments = std::make_shared<MachineArguments>();
  add_machine_arguments(*command, *arguments);
  command->callback([arguments] { run_doctor(*arguments); });
}

}  // namespace thinwire::cli
