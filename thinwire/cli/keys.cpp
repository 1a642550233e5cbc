// thinwire keys: who may take part in a run that this machine serves.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "thinwire/base/names.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/hosts/keys_of_run.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct KeysArguments {
  std::string folder;
  std::string role = "member";
  double days = 7;
  bool single_use = false;
  std::string id;
};

void list(const KeysArguments& arguments) {
  fmt::print("{}", hosts::list_keys(arguments.folder).terminal());
}

void issue(const KeysArguments& arguments) {
  const hosts::Role role = *value_named<hosts::Role>(arguments.role);
  fmt::print("{}\n",
             hosts::issue_token(arguments.folder, role, arguments.days, arguments.single_use));
}

void revoke(const KeysArguments& arguments) {
  fmt::print("{}\n", hosts::revoke_keys(arguments.folder, arguments.id));
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
  auto* command = add_command(
      app, "keys", "Lists, issues and revokes the tokens and keys of a run that is served here");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<KeysArguments>();
  add_action(*command, arguments, "list", "Lists tokens and enrolled keys", list);
  auto* issuing = add_action(*command, arguments, "issue",
                             "Issues a token and prints it; it cannot be shown again", issue);
  issuing->add_option("--role", arguments->role, "Role of those who enrol with it (default member)")
      ->check(one_of({"member", "observer"}));
  add_number(*issuing, "--days", arguments->days, {0, 36500},
             "How many days it admits newcomers; 0: for ever");
  issuing->add_flag("--single-use", arguments->single_use, "It admits one newcomer only");
  auto* revoking = add_action(
      *command, arguments, "revoke",
      "Revokes a token or key and shuts out its owner, at once if the run is being served", revoke);
  revoking
      ->add_option("id", arguments->id, "The id that `thinwire keys list` shows, or its beginning")
      ->required();
}

}  // namespace thinwire::cli
