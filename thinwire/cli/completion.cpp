// thinwire completion: scripts with which shells complete commands, flags, files and recipe fields,
// generated from the same CLI::App that parses the command line.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/recipe_fields.h"

namespace thinwire::cli {
namespace {

using Words = std::vector<std::string>;

struct Flag {
  Words names;  // with their dashes
  std::string sentence;
  bool takes_value = false;
  Words choices;  // values, if there is a fixed list of them
};

struct Command {
  std::string name;
  std::string sentence;
  std::vector<Flag> flags;
  Words words;                // fixed words among its arguments
  bool takes_fields = false;  // recipe fields as table.field=value
};

std::string join(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// CLI11 shows the list of one_of as part of the type's name: TEXT:{fp32,bf16}.
Words choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

Command command_of(const CLI::App& app) {
  Command command{app.get_name(), app.get_description(), {}, {}, false};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      if (option->get_name() == "overrides") command.takes_fields = true;
      std::ranges::copy(choices_of(*option), std::back_inserter(command.words));
      continue;
    }
    Flag flag{
        {}, option->get_description(), option->get_items_expected_max() > 0, choices_of(*option)};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    command.flags.push_back(std::move(flag));
  }
  return command;
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command_of(*sub));
  }
  return commands;
}

// Whole words for shells that do not split them at the equals sign: key= and, if there is a list of
// values, key=choice.
Words field_words(const std::vector<RecipeField>& fields) {
  Words words;
  for (const RecipeField& field : fields) {
    if (field.choices.empty()) words.push_back(field.key() + "=");
    for (const std::string& choice : field.choices) words.push_back(field.key() + "=" + choice);
  }
  return words;
}

Words flag_names(const Command& command) {
  Words names;
  for (const Flag& flag : command.flags) std::ranges::copy(flag.names, std::back_inserter(names));
  return names;
}

// bash passes a word such as sync.method=distro in three parts, split at the equals sign.
constexpr const char* kBash =
    R"script(# bash completion for thinwire. To use it: source <(thinwire completion bash)
_thinwire() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} key= flags= words= fields=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@COMMANDS@ --help --version" -- "$current"))
    return
  fi
  if [[ $current == '=' ]]; then
    key=$previous current=
  elif [[ $previous == '=' ]]; then
    key=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case $key in
@VALUES@  esac
  case "$command $previous" in
@FLAG_VALUES@  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case $command in
@FLAGS@  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  if [[ -z $key && -n $fields && (-n $current || COMP_CWORD -gt 2) ]]; then
    words+=" $_thinwire_fields"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if ((${#COMPREPLY[@]})); then
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}
_thinwire_fields="@FIELDS@"
complete -F _thinwire thinwire
)script";

std::string bash_script(const std::vector<Command>& commands,
                        const std::vector<RecipeField>& fields) {
  Words names;
  Words keys;
  std::string values;
  std::string flags;
  std::string flag_values;
  for (const RecipeField& field : fields) {
    keys.push_back(field.key() + "=");
    if (field.choices.empty()) continue;
    values += fmt::format("    {}) words=\"{}\" ;;\n", field.key(), join(field.choices));
  }
  for (const Command& command : commands) {
    names.push_back(command.name);
    flags += fmt::format("    {}) flags=\"{}\" words=\"{}\" fields={} ;;\n", command.name,
                         join(flag_names(command)), join(command.words),
                         command.takes_fields ? "1" : "");
    for (const Flag& flag : command.flags) {
      if (flag.choices.empty()) continue;
      for (const std::string& name : flag.names) {
        flag_values +=
            fmt::format("    \"{} {}\") words=\"{}\" ;;\n", command.name, name, join(flag.choices));
      }
    }
  }
  std::string script = replace_all(kBash, "@COMMANDS@", join(names));
  script = replace_all(script, "@VALUES@", values);
  script = replace_all(script, "@FLAG_VALUES@", flag_values);
  script = replace_all(script, "@FLAGS@", flags);
  return replace_all(script, "@FIELDS@", join(keys));
}

// Text within zsh's single quotes, with colons escaped; sentences of flags are in brackets as well.
std::string zsh_text(std::string text) {
  return replace_all(replace_all(std::move(text), "'", "'\\''"), ":", "\\:");
}

std::string zsh_bracketed(std::string text) {
  return replace_all(replace_all(zsh_text(std::move(text)), "[", "\\["), "]", "\\]");
}

std::string fish_text(std::string text) {
  return replace_all(replace_all(std::move(text), "\\", "\\\\"), "'", "\\'");
}

constexpr const char* kZsh = R"script(#compdef thinwire
# zsh completion for thinwire. To use it: source <(thinwire completion zsh)
_thinwire_recipe() {
  local -a fields=(@FIELDS@)
  compadd -S '' -- $fields
  compset -P '*='
  _files
}
_thinwire() {
  local context state state_descr line
  typeset -A opt_args
  local -a commands=(
@COMMANDS@  )
  _arguments -C '--help[Print the commands]' '--version[Print the version]' \
    '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $words[1] in
@ARGUMENTS@      esac ;;
  esac
}
if [[ $funcstack[1] == _thinwire ]]; then
  _thinwire "$@"
else
  compdef _thinwire thinwire
fi
)script";

std::string zsh_arguments(const Command& command) {
  std::string specs;
  for (const Flag& flag : command.flags) {
    for (const std::string& name : flag.names) {
      specs += fmt::format(" '{}[{}]", name, zsh_bracketed(flag.sentence));
      if (flag.takes_value && flag.choices.empty()) specs += ":value:_files";
      if (!flag.choices.empty()) specs += fmt::format(":value:({})", join(flag.choices));
      specs += '\'';
    }
  }
  std::string rest = command.takes_fields ? "_thinwire_recipe" : "_files";
  if (!command.words.empty()) rest = fmt::format("({})", join(command.words));
  return fmt::format("        {}) _arguments{} '*:argument:{}' ;;\n", command.name, specs, rest);
}

std::string zsh_script(const std::vector<Command>& commands,
                       const std::vector<RecipeField>& fields) {
  std::string list;
  std::string arguments;
  for (const Command& command : commands) {
    list += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.sentence));
    arguments += zsh_arguments(command);
  }
  std::string script = replace_all(kZsh, "@COMMANDS@", list);
  script = replace_all(script, "@ARGUMENTS@", arguments);
  return replace_all(script, "@FIELDS@", join(field_words(fields)));
}

std::string fish_flag(const Command& command, const Flag& flag) {
  std::string line =
      fmt::format("complete -c thinwire -n '__fish_seen_subcommand_from {}'", command.name);
  for (const std::string& name : flag.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (flag.takes_value) line += " -r";
  if (!flag.choices.empty()) line += fmt::format(" -f -a '{}'", join(flag.choices));
  return fmt::format("{} -d '{}'\n", line, fish_text(flag.sentence));
}

std::string fish_script(const std::vector<Command>& commands,
                        const std::vector<RecipeField>& fields) {
  std::string script =
      "# fish completion for thinwire. To use it: thinwire completion fish | source\n";
  for (const Command& command : commands) {
    script += fmt::format("complete -c thinwire -n __fish_use_subcommand -f -a {} -d '{}'\n",
                          command.name, fish_text(command.sentence));
    for (const Flag& flag : command.flags) script += fish_flag(command, flag);
    Words words = command.words;
    if (command.takes_fields) words = field_words(fields);
    if (words.empty()) continue;
    script += fmt::format("complete -c thinwire -n '__fish_seen_subcommand_from {}' -a '{}'\n",
                          command.name, join(words));
  }
  return script;
}

void run_completion(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> commands = commands_of(app);
  const std::vector<RecipeField> fields = recipe_fields();
  if (shell == "bash") fmt::print("{}", bash_script(commands, fields));
  if (shell == "zsh") fmt::print("{}", zsh_script(commands, fields));
  if (shell == "fish") fmt::print("{}", fish_script(commands, fields));
}

}  // namespace

void add_completion(CLI::App& app) {
  auto* command = add_command(app, "completion",
                              "Prints a script that completes thinwire's commands in a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell the script is for")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->callback([&app, shell] { run_completion(app, *shell); });
}

}  // namespace thinwire::cli
