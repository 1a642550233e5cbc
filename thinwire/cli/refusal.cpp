#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "thinwire/cli/program.h"
#include "thinwire/config/check.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/values.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {
namespace {

using Names = std::vector<std::string>;

// The command that parsing reached.
const CLI::App& reached(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : reached(*chosen.back());
}

// The command with unparsed words, or the last one that parsing reached.
const CLI::App& blamed(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() || !app.remaining().empty() ? app : blamed(*chosen.back());
}

// "plan fit "; empty for the program itself.
std::string path_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* one = &app; one->get_parent() != nullptr; one = one->get_parent()) {
    names.insert(0, one->get_name() + " ");
  }
  return names;
}

// "there is no command", "plan fit has no option".
std::string has_no(const CLI::App& app, const char* what) {
  const std::string path = path_of(app);
  return path.empty() ? fmt::format("there is no {}", what)
                      : fmt::format("{}has no {}", path, what);
}

Names commands_of(const CLI::App& app) {
  Names names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  std::erase(names, "");  // groups of options
  return names;
}

// What could be meant by the word: subcommands, or options if it begins like one.
Names names_like(const CLI::App& app, bool option) {
  if (!option) return commands_of(app);
  Names names;
  for (const CLI::Option* one : app.get_options()) {
    for (const std::string& name : one->get_lnames()) {
      if (!one->get_group().empty()) names.push_back("--" + name);
    }
  }
  return names;
}

// The value that was meant for an option that does not exist: parsing took it for an override.
std::string stray_value(const CLI::App& command, const std::string& given) {
  const size_t equals = given.find('=');
  if (equals != std::string::npos) return given.substr(equals + 1);
  for (const std::string& word : command.get_option("overrides")->results()) {
    if (word.find('=') == std::string::npos) return word;
  }
  return "VALUE";
}

// The recipe fields that are meant by "--steps" or "--train.steps", as they are written behind a
// recipe; empty if there are none or the command takes no fields.
Names fields_like(const CLI::App& command, const std::string& word, const std::string& given) {
  if (command.get_option_no_throw("overrides") == nullptr || !word.starts_with("--")) return {};
  std::string name = word.substr(2);
  std::ranges::replace(name, '-', '_');
  Names found;
  config::Recipe recipe = config::read_recipe({}, method::method_sections());
  for (const auto& [table, section] : recipe.sections()) {
    config::Fields fields;
    section->describe(fields);
    for (const config::Field& field : fields.all()) {
      const std::string key = fmt::format("{}.{}", table, field.name);
      if (name != field.name && name != key) continue;
      found.push_back(fmt::format("{}={}", key, stray_value(command, given)));
    }
  }
  return found;
}

std::string describe_unknown(const CLI::App& command, const std::string& given) {
  const std::string word = given.substr(0, given.find('='));
  const bool option = word.starts_with('-');
  if (word == "help") {
    return fmt::format(
        "{}; `thinwire --help` lists the commands, `thinwire COMMAND --help` the "
        "options of one",
        has_no(command, "command help"));
  }
  if (const Names fields = fields_like(command, word, given); !fields.empty()) {
    return fmt::format("{} {}; a recipe's field is given without dashes: {}",
                       has_no(command, "option"), word, fmt::join(fields, " or "));
  }
  const Names names = names_like(command, option);
  const std::string near = config::nearest_name(word, names);
  const char* what = option ? "option" : "command";
  if (!near.empty()) {
    return fmt::format("{} {}; did you mean {}?", has_no(command, what), word, near);
  }
  if (option) return fmt::format("{} {}", has_no(command, what), word);
  if (names.empty())
    return fmt::format("{}takes no further argument '{}'", path_of(command), given);
  return fmt::format("{} {}; the commands are {}", has_no(command, what), word,
                     fmt::join(names, ", "));
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

// "MODEL", "TASKS...", "--token TOKEN".
std::string usage_of(const CLI::Option& option) {
  const std::string name = label(option);
  if (!option.get_positional()) return fmt::format("{} {}", name, upper_case(name.substr(2)));
  return name + (option.get_items_expected_max() > 1 ? "..." : "");
}

// What must be given, in the order in which it was declared, then what may be given by its place.
std::string usage(const CLI::App& command) {
  std::string needed;
  std::string possible;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required()) {
      needed += " " + usage_of(*option);
    } else if (option->get_positional()) {
      possible += fmt::format(" [{}]", usage_of(*option));
    }
  }
  const std::string path = path_of(command);
  return fmt::format("thinwire {}{}{}", path.substr(0, path.size() - 1), needed, possible);
}

std::string describe_together(const Names& names) {
  return fmt::format("{} cannot be given together", fmt::join(names, " and "));
}

// Groups of options of which only one can be given.
std::vector<const CLI::App*> groups_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* one) { return one->get_name().empty(); });
}

// The given options of such a group.
Names given_of_a_group(const CLI::App& command) {
  Names given;
  for (const CLI::App* group : groups_of(command)) {
    for (const CLI::Option* option : group->get_options()) {
      if (option->count() > 0) given.push_back(label(*option));
    }
  }
  return given;
}

std::string describe_missing(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    return fmt::format("{} is missing; usage: {}", label(*option), usage(command));
  }
  if (command.get_require_subcommand_min() > command.get_subcommands().size()) {
    const std::string path = path_of(command);
    return fmt::format("{}; the commands are {}",
                       path.empty() ? "a command is missing" : path + "needs a command",
                       fmt::join(commands_of(command), ", "));
  }
  return describe_together(given_of_a_group(command));
}

// Which option lacks another one, or was given together with one that it excludes.
std::string describe_conflict(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    for (const CLI::Option* needed : option->get_needs()) {
      if (needed->count() > 0) continue;
      return fmt::format("{} needs {}", label(*option), label(*needed));
    }
    for (const CLI::Option* other : option->get_excludes()) {
      if (other->count() > 0) return describe_together({label(*option), label(*other)});
    }
  }
  return {};
}

// The option whose name CLI11's message begins with; null: none.
const CLI::Option* named_option(const CLI::App& command, std::string_view message) {
  constexpr std::string_view kPrefix = "Could not convert: ";
  if (message.starts_with(kPrefix)) message.remove_prefix(kPrefix.size());
  const CLI::Option* named = nullptr;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!message.starts_with(name)) continue;
    if (named == nullptr || name.size() > named->get_name().size()) named = option;
  }
  for (const CLI::App* group : groups_of(command)) {
    if (named == nullptr) named = named_option(*group, message);
  }
  return named;
}

// Describes what is wrong with the values of one option.
std::string describe_values(const CLI::Option& option, const CLI::ParseError& error) {
  const std::string_view message = error.what();
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    return fmt::format("{}{}", label(option), message.substr(option.get_name().size()));
  }
  if (option.get_items_expected_max() == 0) return label(option) + " takes no value";
  const bool repeated = static_cast<int>(option.count()) > option.get_items_expected_max();
  return label(option) + (repeated ? " can be given only once" : " needs a value");
}

}  // namespace

std::string label(const CLI::Option& option) {
  const std::string name = option.get_name();
  return option.get_positional() ? upper_case(name) : name;
}

std::string describe_refusal(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& unread = blamed(app);
  if (const Names rest = unread.remaining(); !rest.empty()) {
    return describe_unknown(unread, rest.front());
  }
  const CLI::App& command = reached(app);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return describe_missing(command);
  if (const CLI::Option* option = named_option(command, error.what());
      option != nullptr && dynamic_cast<const CLI::RequiresError*>(&error) == nullptr &&
      dynamic_cast<const CLI::ExcludesError*>(&error) == nullptr) {
    return describe_values(*option, error);
  }
  const std::string conflict = describe_conflict(command);
  return conflict.empty() ? error.what() : conflict;
}

}  // namespace thinwire::cli
