// thinwire relay: passes a run on to the machines of a site.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "thinwire/base/interrupt.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/run_access.h"
#include "thinwire/config/sections.h"
#include "thinwire/hosts/relay_run.h"

namespace thinwire::cli {
namespace {

struct RelayArguments {
  AccessArguments access;
  hosts::RelayOptions options;
  std::string folder;
  std::string ready_file;
  double cache_bytes = 1e9;
  double wait_s = config::SyncSection().timeout_s;
};

void run_relay(const RelayArguments& arguments) {
  hosts::RelayOptions options = arguments.options;
  options.display = events::terminal_display();
  options.access = access_of(arguments.access);
  options.access.wait_s = arguments.wait_s;
  options.folder = arguments.folder;
  options.ready_file = arguments.ready_file;
  options.cache_bytes = static_cast<uint64_t>(arguments.cache_bytes);
  options.stop = &interrupts().any;
  options.on_start = [] { catch_interrupts(); };
  const transport::RelayCounts counts = hosts::relay_run(options);
  const auto bytes = [](uint64_t count) { return format_bytes(static_cast<double>(count)); };
  fmt::print("passed on {} to this site's machines; {} came from the run, {} went to it\n",
             bytes(counts.to_clients_bytes), bytes(counts.from_server_bytes),
             bytes(counts.to_server_bytes));
}

}  // namespace

void add_relay(CLI::App& app) {
  auto* command =
      add_command(app, "relay",
                  "Passes a run on to several machines of one site over one line; Ctrl-C ends it");
  const auto arguments = std::make_shared<RelayArguments>();
  hosts::RelayOptions& options = arguments->options;
  add_access(*command, arguments->access);
  command->add_option("--listen", options.listen,
                      "HOST:PORT to listen on; port 0: the port this relay had before, or a free "
                      "one (default 0.0.0.0:0)");
  command->add_option("--address", options.address,
                      "HOST:PORT at which the site's machines reach it, if different (default: as "
                      "--listen)");
  command->add_option("--dir", arguments->folder,
                      "Folder for its keys; the same folder gives the same address and tokens "
                      "(default runs/relay-…)");
  add_quantity(*command, "--cache", arguments->cache_bytes, {0, 1e15}, "B",
               "Memory for payloads, snapshots and data that others may want");
  command
      ->add_option("--ready-file", arguments->ready_file,
                   "File to write once machines may join: address, token and ca as JSON")
      ->check(replaceable_file());
  add_wait(*command, arguments->wait_s);
  add_quiet_flag(command);
  command->callback([arguments] { run_relay(*arguments); });
}

}  // namespace thinwire::cli
