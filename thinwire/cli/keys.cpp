// thinwire keys: who may take part in a run that this machine serves.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct KeysArguments {
  std::string folder;
  std::string account;
  hosts::Role role = hosts::Role::kMember;
  double days = 7;
  bool single_use = false;
  std::string id;
};

void list(const KeysArguments& arguments) {
  fmt::print("{}", hosts::list_keys(arguments.folder).terminal());
}

void issue(const KeysArguments& arguments) {
  fmt::print("{}\n", hosts::issue_token(arguments.folder, arguments.role, arguments.days,
                                        arguments.single_use));
}

void revoke(const KeysArguments& arguments) {
  fmt::print("{}\n", hosts::revoke_keys(arguments.folder, arguments.id));
}

void add_account(const KeysArguments& arguments) {
  if (arguments.folder.empty()) throw UsageError("FOLDER must not be empty");
  const auto [configuration, key] = hosts::add_account(arguments.folder, arguments.account);
  fmt::print(
      "{}: include it in the configuration of every server of the cluster, and reload them\n"
      "{}: thinwire serve --nats URL,… --creds {}\n",
      configuration.string(), key.string(), key.string());
}

CLI::App* add_action(CLI::App& keys, const std::shared_ptr<KeysArguments>& arguments,
                     const std::string& name, const std::string& help,
                     void (*act)(const KeysArguments&)) {
  auto* action = add_command(keys, name, help);
  action->add_option("folder", arguments->folder, "The run's folder, run.dir of `thinwire serve`")
      ->required()
      ->check(existing_folder());
  action->callback([arguments, act] { act(*arguments); });
  return action;
}

}  // namespace

void add_keys(CLI::App& app) {
  auto* command =
      add_command(app, "keys", "Lists, issues and revokes the keys of a run that is served here");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<KeysArguments>();
  add_action(*command, arguments, "list", "Lists tokens and enrolled keys", list);
  auto* issuing = add_action(*command, arguments, "issue",
                             "Issues a token and prints it; it cannot be shown again", issue);
  add_choice(*issuing, "--role", arguments->role, "Role of those who enrol with it");
  add_number(*issuing, "--days", arguments->days, {0, 36500},
             "Days for which it is valid; 0: without limit");
  issuing->add_flag("--single-use", arguments->single_use, "The token enrols one key only");
  auto* revoking = add_action(
      *command, arguments, "revoke",
      "Revokes a token or key; if the run is being served, its owner is disconnected at once",
      revoke);
  revoking
      ->add_option("id", arguments->id,
                   "The id that `thinwire keys list` shows, or its first characters, at least 4")
      ->required();
  auto* account =
      add_command(*command, "account",
                  "Adds an account for runs to a NATS cluster, and its operator if it has none");
  account->add_option("folder", arguments->folder, "Folder for the operator's and accounts' keys")
      ->required();
  account->add_option("name", arguments->account, "Name of the account")->required();
  account->callback([arguments] { add_account(*arguments); });
}

}  // namespace thinwire::cli
