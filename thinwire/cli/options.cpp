#include "thinwire/cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "thinwire/architectures/roberta/roberta_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"
#include "thinwire/config/changes.h"
#include "thinwire/config/values.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_model.h"

namespace thinwire::cli {
namespace {

constexpr double kLargestExactInteger = 0x1.0p53;

// What is beside it and has nearly this name; empty if there is nothing.
std::string near_name(const fs::path& path) {
  std::vector<std::string> beside;
  std::error_code unreadable;
  const fs::path folder = path.parent_path();
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, unreadable)) {
    beside.push_back(entry.path().filename().string());
  }
  const std::string near = config::nearest_name(path.filename().string(), beside);
  return near.empty() ? "" : (folder / near).string();
}

// Empty if there is something of this name.
std::string absence(const std::string& name, std::string_view what) {
  try {
    if (file_exists(name)) return "";
    const std::string near = near_name(name);
    return fmt::format("there is no {} '{}'{}", what, name,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
  } catch (const Error& error) {  // a link to nothing
    return error.what();
  }
}

// Why no file of this name can be written; empty if one can be, in a folder that may be yet to be
// made.
std::string why_not_writable(const std::string& name) {
  std::error_code unknown;
  if (fs::is_directory(name, unknown)) return fmt::format("'{}' is a folder, not a file", name);
  const fs::path folder = nearest_existing(fs::absolute(name, unknown).parent_path());
  if (!fs::is_directory(folder, unknown)) {
    return fmt::format("'{}' cannot be written: {} is no folder", name, folder.string());
  }
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("'{}' cannot be written: {}: {}", name, folder.string(),
                     std::generic_category().message(errno));
}

std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

std::string phrase(const Range& range) {
  return fmt::format("{} {} and <= {}", range.above ? ">" : ">=", range.min, range.max);
}

bool holds(const Range& range, double value) {
  return (range.above ? value > range.min : value >= range.min) && value <= range.max;
}

double quantity(const std::string& names, const std::string& text, const Range& range,
                const std::string& unit) {
  const std::string question = unit_question(text, unit, first_name(names));
  if (!question.empty()) {
    throw UsageError(fmt::format("{} {}: {}", first_name(names), text, question));
  }
  double value = 0;
  try {
    value = unit.empty() ? parse_quantity(text) : parse_quantity(text, unit);
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("{}: {}; it must be {}", first_name(names), error.what(), phrase(range)));
  }
  if (holds(range, value)) return value;
  throw UsageError(fmt::format("{} must be {}{}, got {}", first_name(names), phrase(range),
                               unit.empty() ? "" : " " + unit, text));
}

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return value;
  return std::nullopt;
}

// The whole number that a text stands for, possibly with a suffix.
std::optional<int64_t> whole(const std::string& text) {
  if (const std::optional<int64_t> value = integer(text)) return value;
  try {
    const double number = parse_quantity(text);
    if (std::fabs(number) > kLargestExactInteger || std::trunc(number) != number) {
      return std::nullopt;
    }
    return static_cast<int64_t>(number);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

}  // namespace

CLI::Option* add_quantity(CLI::App& app, const std::string& names, double& value,
                          const Range& range, const std::string& unit, const std::string& help) {
  const auto assign = [&value, names, range, unit](const std::string& text) {
    value = quantity(names, text, range, unit);
  };
  std::string notes = unit;
  if (holds(range, value)) {
    notes += fmt::format("{}default {}", notes.empty() ? "" : "; ",
                         value < 1000 ? fmt::format("{}", value) : format_count(value));
  }
  return app
      .add_option_function<std::string>(names, assign,
                                        notes.empty() ? help : fmt::format("{} ({})", help, notes))
      ->type_name("QUANTITY");
}

CLI::Option* add_plot(CLI::App& app, std::string& file, const std::string& help) {
  const auto ending = [](const std::string& name) -> std::string {
    if (name.ends_with(".png") || name.ends_with(".svg")) return {};
    return fmt::format("the name must end in .png or .svg, got '{}'", name);
  };
  return app.add_option("--plot", file, help + "; replaces a file of that name")
      ->check(ending)
      ->check(replaceable_file());
}

CLI::Option* add_base(CLI::App& app, std::string& folder) {
  return app
      .add_option("--base", folder,
                  "Model that the factors of an adapter belong to, if it is not where the run or "
                  "the PEFT folder says")
      ->check(existing_folder());
}

CLI::Option* add_device(CLI::App& app, config::DeviceChoice& device) {
  return add_choice(
      app, kDeviceOption, device,
      "What computes: Thinwire's own code on the processor, the machine's GPU, auto: a GPU if "
      "there is one, or LibTorch on the processor");
}

void add_model_socket(CLI::App& app, int& socket) {
  constexpr int kMostFiles = 1 << 20;
  add_count(app, "--model-socket", socket, 0, kMostFiles,
            "Inherited socket of the program that computes the model")
      ->group("");
}

CLI::Option* add_recipe_file(CLI::App& app, std::string& recipe) {
  const auto check = [](const std::string& name) -> std::string {
    const bool field = name.find('=') != std::string::npos && !fs::exists(name);
    return field ? fmt::format("'{}' is a field; a recipe file comes before the fields", name) : "";
  };
  return app.add_option("recipe", recipe, "Recipe file (TOML)")
      ->required()
      ->check(check)
      ->check(existing_file());
}

CLI::Option* add_overrides(CLI::App& app, std::vector<std::string>& overrides,
                           const std::string& help) {
  const auto assign = [&overrides](const std::vector<std::string>& words) {
    overrides = whole_overrides(words);
  };
  return app.add_option_function<std::vector<std::string>>("overrides", assign, help);
}

std::vector<std::string> whole_overrides(std::span<const std::string> words) {
  std::vector<std::string> whole;
  bool alone = false;  // whether the last word was a single '='
  for (const std::string& word : words) {
    const bool has_sign = word.find('=') != std::string::npos;
    const bool sign =
        !whole.empty() && whole.back().find('=') == std::string::npos && word.starts_with('=');
    const bool value = !whole.empty() && whole.back().ends_with('=') && (alone || !has_sign);
    if (sign || value) {
      whole.back() += word;
    } else {
      whole.push_back(word);
    }
    alone = word == "=";
  }
  return whole;
}

void separate_recipe(std::string& recipe, std::vector<std::string>& overrides) {
  const bool field = recipe.find('=') != std::string::npos ||
                     (!overrides.empty() && overrides.front().starts_with('='));
  if (!field) {
    const std::string refusal = recipe.empty() ? "" : existing_file()(recipe);
    if (!refusal.empty()) throw UsageError("RECIPE: " + refusal);
    return;
  }
  overrides.insert(overrides.begin(), std::exchange(recipe, ""));
  overrides = whole_overrides(overrides);
}

std::string refuse_empty(const std::string& name) {
  return name.empty() ? "the name must not be empty" : "";
}

CLI::Validator existing_file() {
  const auto check = [](const std::string& name) -> std::string {
    if (fs::is_directory(name)) return fmt::format("'{}' is a folder, not a file", name);
    return absence(name, "file");
  };
  return {check, "FILE"};
}

CLI::Validator new_file() {
  const auto check = [](const std::string& name) -> std::string {
    if (name.empty()) return "the name must not be empty";
    if (!fs::exists(name)) return "";
    return fmt::format("'{}' exists already and is kept; give another name", name);
  };
  return {check, "FILE"};
}

CLI::Validator existing_path() {
  const auto check = [](const std::string& name) { return absence(name, "file or folder"); };
  return {check, "PATH"};
}

CLI::Validator replaceable_file() { return {why_not_writable, "FILE"}; }

CLI::Validator existing_folder() {
  const auto check = [](const std::string& name) -> std::string {
    if (fs::is_directory(name)) return "";
    if (fs::exists(name)) return fmt::format("'{}' is a file, not a folder", name);
    return absence(name, "folder");
  };
  return {check, "DIR"};
}

CLI::Option* add_named(CLI::App& app, const std::string& names, config::NamedTarget value,
                       const std::string& help) {
  const auto set = [value](const std::string& name) {
    *value = static_cast<uint8_t>(std::ranges::find(value.names, name) - value.names.begin());
  };
  return app.add_option_function<std::string>(names, set, help)
      ->check(one_of({value.names.begin(), value.names.end()}))
      ->default_str(std::string(value.name()));
}

CLI::Validator one_of(std::vector<std::string> choices) {
  const std::string shown = fmt::format("{{{}}}", fmt::join(choices, ","));
  const auto check = [choices = std::move(choices)](const std::string& value) -> std::string {
    if (std::ranges::find(choices, value) != choices.end()) return "";
    const std::string near = config::nearest_name(value, choices);
    return fmt::format("must be one of {}; got '{}'{}", fmt::join(choices, ", "), value,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
  };
  return {check, shown};
}

CLI::Validator whole_number(int64_t min, int64_t max) {
  const auto check = [=](const std::string& text) -> std::string {
    const std::optional<int64_t> value = integer(text);
    if (value && *value >= min && *value <= max) return "";
    return fmt::format("must be a whole number >= {} and <= {}; got '{}'", min, max, text);
  };
  return {check, fmt::format("{} to {}", min, max)};
}

CLI::Option* add_integer(CLI::App& app, const std::string& names, int64_t present, int64_t min,
                         int64_t max, const std::string& help,
                         const std::function<void(int64_t)>& assign) {
  const auto parse = [names, min, max, assign](const std::string& text) {
    if (const std::string question = config::thousands_question(text); !question.empty()) {
      throw UsageError(fmt::format("{} {}: {}", first_name(names), text, question));
    }
    const std::optional<int64_t> value = whole(text);
    if (!value || *value < min || *value > max) {
      throw UsageError(fmt::format("{} must be a whole number >= {} and <= {}, got {}",
                                   first_name(names), min, max, text.empty() ? "''" : text));
    }
    assign(*value);
  };
  const bool shown = present >= min && present <= max;
  return app
      .add_option_function<std::string>(
          names, parse, shown ? fmt::format("{} (default {})", help, present) : help)
      ->type_name("COUNT");
}

namespace {

// Classes and numbers of texts are learnt by an encoder, of which there is one architecture.
void assume_encoder(config::Recipe& recipe) {
  if (is_labelled(recipe.data.records) && !recipe.given.contains("model.architecture")) {
    recipe.model.architecture = method::kRoberta.name;
  }
}

}  // namespace

config::Recipe load_given_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> overrides) {
  config::Recipe recipe = method::load_recipe(path, overrides);
  for (const std::string& notice : recipe.notices) events::print_message(notice);
  return recipe;
}

config::Recipe load_run_recipe(const std::filesystem::path& path,
                               std::span<const std::string> overrides) {
  config::Recipe recipe = load_given_recipe(path, overrides);
  if (std::filesystem::exists(recipe.train.init)) {
    train::take_initial_model(recipe);
  } else if (!recipe.train.init.empty()) {
    events::print_message(fmt::format(
        "[train] init: there is no {} here, so the model is assumed to be as [model] describes it",
        recipe.train.init));
    assume_encoder(recipe);
    method::check_choices(recipe);
  }
  return recipe;
}

std::vector<std::string> with_initial_model(const std::filesystem::path& path,
                                            std::vector<std::string> overrides,
                                            const config::Recipe& run) {
  const config::Recipe plain = method::load_recipe(path, overrides);
  for (const config::FieldChange& change : config::field_changes(plain, run)) {
    std::erase_if(overrides,
                  [&](const std::string& one) { return one.starts_with(change.field + "="); });
    overrides.push_back(fmt::format("{}={}", change.field, change.now));
  }
  return overrides;
}

}  // namespace thinwire::cli
