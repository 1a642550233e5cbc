#include "thinwire/cli/run_access.h"

#include <CLI/App.hpp>

#include "thinwire/cli/options.h"

namespace thinwire::cli {

void add_access(CLI::App& command, AccessArguments& arguments) {
  command
      .add_option("address", arguments.address,
                  "HOST:PORT of the run, or the folder of its mailbox")
      ->required();
  command
      .add_option("--token", arguments.token,
                  "The token that `thinwire serve` or `thinwire keys` printed")
      ->required();
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
  return hosts::parse_access(arguments.address, arguments.token, arguments.ca);
}

}  // namespace thinwire::cli
