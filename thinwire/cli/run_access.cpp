#include "thinwire/cli/run_access.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/cli/options.h"

namespace thinwire::cli {
namespace {

constexpr const char* kTokenVariable = "THINWIRE_TOKEN";

std::string token_of(const AccessArguments& arguments) {
  if (!arguments.token.empty()) return arguments.token;
  if (arguments.token_file == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  if (!arguments.token_file.empty()) return read_text_file(arguments.token_file);
  const char* const variable = std::getenv(kTokenVariable);
  if (variable != nullptr && *variable != '\0') return variable;
  throw UsageError(
      fmt::format("a token is needed, which `thinwire serve` or `thinwire keys` printed: give "
                  "--token TOKEN, --token-file FILE, or {} in the environment",
                  kTokenVariable));
}

}  // namespace

void add_access(CLI::App& command, AccessArguments& arguments) {
  command
      .add_option("address", arguments.address,
                  "HOST:PORT of the run, or the folder of its mailbox")
      ->required();
  auto* const token =
      command.add_option("--token", arguments.token,
                         "The token that `thinwire serve` or `thinwire keys` printed (default: "
                         "that in the environment, THINWIRE_TOKEN)");
  command
      .add_option("--token-file", arguments.token_file,
                  "File that holds the token, which others then do not see in lists of processes; "
                  "-: standard input")
      ->excludes(token);
  command
      .add_option("--ca", arguments.ca,
                  "File with the certificate of the run's authority (default: the token's)")
      ->check(existing_file());
}

void add_machine_arguments(CLI::App& command, MachineArguments& arguments) {
  add_access(command, arguments.access);
  add_overrides(command, arguments.overrides,
                "This machine's own recipe fields, table.field=value: run.dir, data.dir, "
                "train.threads, train.device, train.precision, train.offload, train.offload_dir, "
                "train.launcher, log.*, links.*");
  add_quantity(command, "--memory", arguments.memory_bytes, kAmount, "B",
               "Maximum memory that the run may use on this machine; 0: no limit");
}

void add_wait(CLI::App& command, double& wait_s) {
  add_quantity(command, "--wait", wait_s, kDuration, "s",
               "How long to wait for the run's server or its coordinator if it is down, e.g. "
               "10min; the default is that of sync.timeout_s");
}

hosts::Access access_of(const AccessArguments& arguments) {
  hosts::Access access = hosts::parse_access(arguments.address, token_of(arguments), arguments.ca);
  access.message = events::print_message;
  return access;
}

}  // namespace thinwire::cli
