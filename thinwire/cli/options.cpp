#include "thinwire/cli/options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"
#include "thinwire/config/values.h"

namespace thinwire::cli {
namespace {

constexpr double kLargestExactInteger = 0x1.0p53;

std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

std::string phrase(const Range& range) {
  return fmt::format("{} {} and <= {}", range.above ? ">" : ">=", range.min, range.max);
}

bool holds(const Range& range, double value) {
  return (range.above ? value > range.min : value >= range.min) && value <= range.max;
}

double quantity(const std::string& names, const std::string& text, const Range& range,
                const std::string& unit) {
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
  return app.add_option("--plot", file, help)->check(ending);
}

CLI::Option* add_base(CLI::App& app, std::string& folder) {
  return app
      .add_option("--base", folder,
                  "Model that the factors of an adapter belong to, if it is not where the run or "
                  "the PEFT folder says")
      ->check(existing_folder());
}

std::string refuse_empty(const std::string& name) {
  return name.empty() ? "the name must not be empty" : "";
}

CLI::Validator existing_file() {
  const auto check = [](const std::string& name) -> std::string {
    if (fs::is_directory(name)) return fmt::format("'{}' is a folder, not a file", name);
    return fs::exists(name) ? "" : fmt::format("there is no file '{}'", name);
  };
  return {check, "FILE"};
}

CLI::Validator existing_path() {
  const auto check = [](const std::string& name) -> std::string {
    return fs::exists(name) ? "" : fmt::format("there is no file or folder '{}'", name);
  };
  return {check, "PATH"};
}

CLI::Validator existing_folder() {
  const auto check = [](const std::string& name) -> std::string {
    if (fs::is_directory(name)) return "";
    if (fs::exists(name)) return fmt::format("'{}' is a file, not a folder", name);
    return fmt::format("there is no folder '{}'", name);
  };
  return {check, "DIR"};
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

}  // namespace thinwire::cli
