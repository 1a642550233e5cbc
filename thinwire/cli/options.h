// Options of subcommands that are more than plain text. Every number has a range: a value outside
// it, or one that is not a number, is a UsageError that names option, range and value: "--jobs must
// be >= 1 and <= 1024, got 0".
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/names.h"
#include "thinwire/config/fields.h"
#include "thinwire/config/recipe.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace thinwire::cli {

struct Range {
  double min = 0;
  double max = 0;
  bool above = false;  // greater than min, not equal to it
};

// Ranges of quantities, chosen so that everything computed from values within them is finite.
inline constexpr Range kRate = {1, 1e24};       // bit/s, FLOP/s
inline constexpr Range kAmount = {0, 1e24};     // bytes
inline constexpr Range kDuration = {0, 1e6};    // s
inline constexpr Range kFraction = {0, 1};      // shares and probabilities
inline constexpr Range kModelSize = {1, 1e18};  // parameters
inline constexpr int64_t kMaxThreads = 1024;
inline constexpr int64_t kMaxSteps = 1'000'000'000;

// `names` are CLI11's, "--local-steps,-s". A number may have a suffix and the unit, "0.8Gbit/s".
// The help text ends with unit and default; if the current value is outside the range, there is no
// default.
CLI::Option* add_quantity(CLI::App& app, const std::string& names, double& value,
                          const Range& range, const std::string& unit, const std::string& help);

// The same without a unit.
inline CLI::Option* add_number(CLI::App& app, const std::string& names, double& value,
                               const Range& range, const std::string& help) {
  return add_quantity(app, names, value, range, "", help);
}

CLI::Option* add_integer(CLI::App& app, const std::string& names, int64_t present, int64_t min,
                         int64_t max, const std::string& help,
                         const std::function<void(int64_t)>& assign);

// A whole number from min to max, which T holds.
template <typename T>
  requires std::integral<T> || std::floating_point<T>
CLI::Option* add_count(CLI::App& app, const std::string& names, T& value, int64_t min, int64_t max,
                       const std::string& help) {
  return add_integer(app, names, static_cast<int64_t>(value), min, max, help,
                     [&value](int64_t given) { value = static_cast<T>(given); });
}

// An option with the name of one of an enumeration's values (base/names.h); the value that it has
// before is the default.
CLI::Option* add_named(CLI::App& app, const std::string& names, config::NamedTarget value,
                       const std::string& help);
template <Named E>
CLI::Option* add_choice(CLI::App& app, const std::string& names, E& value,
                        const std::string& help) {
  return add_named(app, names, {reinterpret_cast<uint8_t*>(&value), names_of(value)}, help);
}

// A file to draw into, which replaces one of that name; its name must end in .png or .svg, and it
// can be written.
CLI::Option* add_plot(CLI::App& app, std::string& file, const std::string& help);

// --base: the folder of the model that a run's or a PEFT folder's factors belong to.
CLI::Option* add_base(CLI::App& app, std::string& folder);

// --device: what computes a model that is used and not trained.
inline constexpr const char* kDeviceOption = "--device";
CLI::Option* add_device(CLI::App& app, config::DeviceChoice& device);

// --model-socket: for another program that has the model (train/model_socket.h, docs/python.md);
// `socket` stays as it is if it is not given.
void add_model_socket(CLI::App& app, int& socket);

// The recipe that a command needs: an existing file.
CLI::Option* add_recipe_file(CLI::App& app, std::string& recipe);

// The fields behind a recipe, "table.field=value", also with spaces around the sign.
CLI::Option* add_overrides(CLI::App& app, std::vector<std::string>& overrides,
                           const std::string& help = "Recipe fields, table.field=value");

// Words of a shell to overrides: the words data.document, = and line are data.document=line.
std::vector<std::string> whole_overrides(std::span<const std::string> words);

// Where the recipe may be left out: if the word in its place is a field, it becomes the first
// override, and the recipe is empty. Throws UsageError if it is neither a field nor a file.
void separate_recipe(std::string& recipe, std::vector<std::string>& overrides);

// For CLI::Option::check: these return what is wrong with a value, or with one of several.
std::string refuse_empty(const std::string& name);  // of a file or folder
CLI::Validator existing_file();
CLI::Validator new_file();          // one that a command writes and nothing must be lost for
CLI::Validator replaceable_file();  // one that a command writes, there or not
CLI::Validator existing_folder();
CLI::Validator existing_path();
CLI::Validator one_of(std::vector<std::string> choices);
CLI::Validator whole_number(int64_t min, int64_t max);

// The recipe given on a command line.

// Calls method::load_recipe and prints a message for each of the recipe's notices.
config::Recipe load_given_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> overrides);

// The same with the model that the run would have: that of train.init, where the recipe names one
// and it is here (else a message says that only the recipe counts).
config::Recipe load_run_recipe(const std::filesystem::path& path,
                               std::span<const std::string> overrides);

// Overrides by which variants of the recipe have that model, too. `run`: what load_run_recipe gave.
std::vector<std::string> with_initial_model(const std::filesystem::path& path,
                                            std::vector<std::string> overrides,
                                            const config::Recipe& run);

}  // namespace thinwire::cli
