// thinwire recipe: what a recipe says, or could say.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/config/check.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/automatic.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/privacy/privacy.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {
namespace {

constexpr const char* kExplainIntroduction =
    "A recipe is a TOML file with these tables. Any field may be left out, or be overridden on "
    "the\ncommand line as table.field=value. Numbers may have a suffix (k, M, G, T, P; of bytes "
    "also Ki, Mi,\nGi, Ti, Pi); in TOML they are then strings: \"100M\". Fields that depend on the "
    "synchronisation\nmethod may be put in a table [when.<method>], for example optim.lr = "
    "1e-3 under [when.distro].\n\n";

struct RecipeArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool explain = false;
  bool json = false;
  bool combinations = false;
  bool markdown = false;
};

// What the tables that choices bring are for, by their names.
std::map<std::string_view, std::string_view> sentences() {
  std::map<std::string_view, std::string_view> all;
  for (const auto* one : method::all_methods()) all[one->name] = one->sentence;
  for (const auto* one : method::all_optimizers()) all[one->name] = one->sentence;
  return all;
}

// Explains the tables and fields that were named, or all.
void explain(const RecipeArguments& arguments) {
  if (arguments.json) {
    if (!arguments.recipe.empty()) {
      throw UsageError(
          fmt::format("--explain --json explains all fields; leave out {}", arguments.recipe));
    }
    fmt::print("{}\n", config::explain_json(method::method_sections(), sentences()));
    return;
  }
  if (arguments.recipe.empty()) fmt::print("{}", kExplainIntroduction);
  fmt::print("{}", method::explain_recipe(arguments.recipe));
  for (const std::string& more : arguments.overrides) {
    fmt::print("\n{}", method::explain_recipe(more));
  }
}

// What goes with what: of the features that were named, or all.
void print_combinations(const RecipeArguments& arguments) {
  if (arguments.markdown) {
    fmt::print("{}", method::combinations_page());
    return;
  }
  fmt::print("{}", method::print_combinations(arguments.recipe));
  for (const std::string& more : arguments.overrides) {
    fmt::print("\n{}", method::print_combinations(more));
  }
}

void print_recipe(RecipeArguments arguments) {
  if (arguments.explain) return explain(arguments);
  if (arguments.combinations) return print_combinations(arguments);
  separate_recipe(arguments.recipe, arguments.overrides);
  const config::Recipe recipe = load_run_recipe(arguments.recipe, arguments.overrides);
  for (const std::string& field : method::ignored_fields(recipe)) events::print_message(field);
  for (const std::string& number : method::automatic_numbers(recipe)) events::print_message(number);
  if (const std::string privacy = method::planned_privacy(recipe); !privacy.empty())
    events::print_message(privacy);
  if (arguments.json) {
    fmt::print("{}\n", config::recipe_json(recipe));
  } else {
    fmt::print("{}", config::print_recipe(recipe));
  }
}

}  // namespace

void add_recipe(CLI::App& app) {
  auto* command =
      add_command(app, "recipe", "Prints a recipe with every field, or explains the fields");
  const auto arguments = std::make_shared<RecipeArguments>();
  command->add_option("recipe", arguments->recipe, "Recipe file (TOML); may be left out");
  add_overrides(*command, arguments->overrides);
  command->add_flag("--explain", arguments->explain,
                    "Print type, unit, default, range and meaning of every field instead, or only "
                    "of the tables and fields given: recipe --explain sync train.batch");
  auto* json = command->add_flag("--json", arguments->json,
                                 "Print the fields, or with --explain their descriptions, as JSON");
  auto* combinations = command->add_flag(
      "--combinations", arguments->combinations,
      "Print what goes with what instead and why not, or only of the fields, tables and values "
      "given: recipe --combinations adapter optim.state=bf16");
  combinations->excludes(json);
  command
      ->add_flag("--markdown", arguments->markdown,
                 "With --combinations: print all of it as docs/combinations.md")
      ->needs(combinations);
  command->callback([arguments] { print_recipe(*arguments); });
}

}  // namespace thinwire::cli
