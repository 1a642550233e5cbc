// thinwire serve: coordinates a run of many hosts and hands out what its members need.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/live_page.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/serve_run.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire::cli {
namespace {

struct ServeArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  hosts::ServeOptions options;
  std::string ready_file;
  std::string nats;
  std::string creds;
  std::string ca;
  bool sites = false;
  std::string page;
  std::string mailbox;
};

void check_no_own_server(const ServeArguments& arguments, std::string_view instead) {
  const hosts::ServeOptions defaults;
  if (arguments.options.listen == defaults.listen && arguments.options.address.empty()) return;
  throw UsageError(
      fmt::format("--listen and --address are for a server of the run's own; with {}", instead));
}

void check_mailbox(const ServeArguments& arguments) {
  if (arguments.mailbox.empty()) return;
  check_no_own_server(arguments, "--mailbox, members and coordinator write files");
  if (!arguments.nats.empty()) {
    throw UsageError("--mailbox and --nats exclude each other: a run has a mailbox or a cluster");
  }
}

// The cluster to use, if one is given.
std::optional<hosts::ClusterOptions> cluster_of(const ServeArguments& arguments) {
  if (arguments.nats.empty()) {
    if (arguments.creds.empty() && arguments.ca.empty() && !arguments.sites) return std::nullopt;
    const char* other = arguments.sites ? "--sites" : "--ca";
    throw UsageError(fmt::format("{} is for a cluster: name its servers with --nats",
                                 arguments.creds.empty() ? other : "--creds"));
  }
  if (arguments.creds.empty()) {
    throw UsageError("--nats needs --creds, the file with the key of the cluster's account");
  }
  check_no_own_server(arguments, "--nats, members connect to the cluster");
  return hosts::ClusterOptions{arguments.nats, arguments.creds, arguments.ca, arguments.sites};
}

void run_serve(const ServeArguments& arguments) {
  LivePage page(arguments.page);
  config::Recipe recipe = load_given_recipe(arguments.recipe, arguments.overrides);
  recipe.run.dir = hosts::served_folder(recipe);
  hosts::ServeOptions options = arguments.options;
  options.display = events::terminal_display();
  options.ready_file = arguments.ready_file;
  check_mailbox(arguments);
  options.cluster = cluster_of(arguments);
  options.mailbox = arguments.mailbox;
  options.stop = &interrupts().any;
  options.on_start = [] { catch_interrupts(); };
  options.watch = [&page](const config::Recipe& resolved, uint64_t rounds) {
    return page.open("serve", resolved, 0, rounds);
  };
  const hosts::ServeResult result = hosts::serve_run(recipe, options);
  if (result.outcome == hosts::ServeOutcome::kStopped) {
    const std::string when = result.round == 0 ? "before the end of the first round"
                                               : fmt::format("in round {}", result.round);
    throw Interrupted(fmt::format("stopped serving {}; the same command resumes it", when));
  }
  if (result.outcome == hosts::ServeOutcome::kAlreadyFinished) {
    events::print_message(fmt::format("{} is already finished", recipe.run.dir));
  }
  print_run_result(result.summary, recipe.run.dir);
}

}  // namespace

void add_serve(CLI::App& app) {
  auto* command = add_command(
      app, "serve", "Coordinates a run of many hosts; they take part with `thinwire join`");
  const auto arguments = std::make_shared<ServeArguments>();
  hosts::ServeOptions& options = arguments->options;
  add_recipe_file(*command, arguments->recipe);
  add_overrides(*command, arguments->overrides);
  command->add_option("--listen", options.listen,
                      "HOST:PORT to listen on; port 0: the port this run had before, or a free one "
                      "(default 0.0.0.0:0)");
  command->add_option("--address", options.address,
                      "HOST:PORT at which members reach it, if different, e.g. behind a router "
                      "(default: as --listen)");
  command->add_option("--nats", arguments->nats,
                      "Servers of a NATS cluster to use instead of one of its own: URL[,URL…]");
  command
      ->add_option("--creds", arguments->creds,
                   "File with the key of the cluster's account that carries the run")
      ->check(existing_file());
  command
      ->add_option("--ca", arguments->ca,
                   "File with the certificate of the authority of the cluster's servers (default: "
                   "those that this machine trusts)")
      ->check(existing_file());
  command->add_flag("--sites", arguments->sites,
                    "Each server of --nats is a site's: it keeps its members' payloads, which "
                    "others fetch straight from there; its host is one of its server_tags");
  command
      ->add_option("--mailbox", arguments->mailbox,
                   "Folder to use instead of a server; something else, such as Syncthing, keeps it "
                   "the same on all machines")
      ->check(existing_folder());
  command
      ->add_option("--ready-file", arguments->ready_file,
                   "File to write once members may join: address, token and ca as JSON")
      ->check(replaceable_file());
  add_number(*command, "--token-days", options.token_days, {0, 36500},
             "Days for which the token is valid; 0: without limit");
  command->add_flag("!--no-weights", options.weights,
                    "Leaves the final weights with the members, instead of receiving them into the "
                    "run's folder at the end");
  add_page_option(*command, arguments->page);
  add_quiet_flag(command);
  command->callback([arguments] { run_serve(*arguments); });
}

}  // namespace thinwire::cli
