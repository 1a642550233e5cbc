// thinwire doctor: checks this machine before it joins a run.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/hosts/ask_run.h"

namespace thinwire::cli {
namespace {

struct DoctorArguments {
  AccessArguments access;
  std::vector<std::string> overrides;
  double memory_bytes = 0;
};

void run_doctor(const DoctorArguments& arguments) {
  const std::vector<std::string> lines =
      hosts::examine(access_of(arguments.access), arguments.overrides, arguments.memory_bytes);
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto* command = add_command(
      app, "doctor", "Checks link, clock, memory and speed of this machine against a run's needs");
  const auto arguments = std::make_shared<DoctorArguments>();
  add_access(*command, arguments->access);
  command->add_option("overrides", arguments->overrides,
                      "This machine's own recipe fields, as for `thinwire join`");
  add_quantity(*command, "--memory", arguments->memory_bytes, kAmount, "B",
               "The most memory that the run may take here; 0: all there is");
  command->callback([arguments] { run_doctor(*arguments); });
}

}  // namespace thinwire::cli
