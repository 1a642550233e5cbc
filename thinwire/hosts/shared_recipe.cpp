#include "thinwire/hosts/shared_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <variant>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/member/member.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/task_files.h"

namespace thinwire::hosts {
namespace {

constexpr std::array<std::string_view, 13> kLocal = {
    "run.dir",           "data.dir",     "data.fetch",      "data.fetch_cache", "train.init",
    "train.threads",     "train.device", "train.precision", "train.launcher",   "train.offload",
    "train.offload_dir", "log.*",        "links.*"};
// Replaced by what the description carries instead.
constexpr std::array<std::string_view, 5> kReplaced = {"data.*", "eval.data", "train.init",
                                                       "train.launcher", "adapter.init"};
// But members must know what is learnt, and from whose text.
constexpr std::array<std::string_view, 2> kKept = {"data.records", "data.own"};
constexpr const char* kOrigin = "the run's recipe";

bool covers(std::string_view pattern, std::string_view field) {
  if (!pattern.ends_with(".*")) return pattern == field;
  return field.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool covers(std::span<const std::string_view> patterns, std::string_view field) {
  return std::ranges::any_of(patterns, [&](std::string_view one) { return covers(one, field); });
}

bool is_replaced(std::string_view field) {
  return covers(kReplaced, field) && !covers(kKept, field);
}

config::Recipe shared_part(const config::Recipe& resolved) {
  config::Recipe shared = resolved;
  config::Recipe defaults = method::load_recipe({}, {});
  const auto reset = [](const std::string& name, const config::Field& field,
                        const config::Field& by_default) {
    if (!is_machine_local(name) && !is_replaced(name)) return;
    std::visit([&]<typename T>(const T& target) { *target = *std::get<T>(by_default.target); },
               field.target);
  };
  config::visit_fields(shared, defaults, reset);
  shared.run.dir.clear();
  // Weights in bf16 are multiplied as they are, on all machines.
  const bool rounded = resolved.train.weights != WeightFormat::kF32;
  if (rounded) shared.train.precision = resolved.train.precision;
  const bool adapts = method::is_adapted(resolved.adapter) && !resolved.train.init.empty();
  if (adapts) shared.train.init = kSharedBase;
  for (std::string& task : shared.eval.tasks) task = train::task_name(task);
  if (!shared.eval.tasks.empty()) shared.eval.data = kSharedTasks;
  return shared;
}

bool is_plain(const std::string& text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// The field that "table.field=value" sets.
std::string field_of(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}

// Any text may eventually be shown on a terminal.
void refuse_control_characters(config::Recipe& recipe) {
  config::Recipe defaults = method::load_recipe({}, {});
  const auto check = [](const std::string& name, const config::Field& field, const config::Field&) {
    const auto* const* text = std::get_if<std::string*>(&field.target);
    const auto* const* list = std::get_if<config::StringList*>(&field.target);
    const bool plain = (text == nullptr || is_plain(**text)) &&
                       (list == nullptr || std::ranges::all_of(**list, is_plain));
    if (!plain) throw UsageError(fmt::format("{}: {} has control characters in it", kOrigin, name));
  };
  config::visit_fields(recipe, defaults, check);
}

// Data and initial weights come from the description, never from a path in a received text.
void refuse_paths(const config::Recipe& received) {
  for (const config::FieldChange& change : config::field_changes(shared_part(received), received)) {
    if (!is_replaced(change.field) && change.field != "eval.tasks") continue;
    throw UsageError(fmt::format("{}: it sets {} to {}, which a received recipe may not do",
                                 kOrigin, change.field, change.now));
  }
}

// Else a folder that nobody named would be opened, or a base that was received not be used.
void check_base(const config::Recipe& received, const fs::path& base) {
  const bool has_base = !received.train.init.empty();
  if (has_base == !base.empty()) return;
  throw UsageError(fmt::format("{}: it {} an adapter's base, and the run's description has {}",
                               kOrigin, has_base ? "has" : "does not have",
                               has_base ? "none" : "one"));
}

}  // namespace

bool is_machine_local(std::string_view field) { return covers(kLocal, field); }

std::string shared_recipe_text(const config::Recipe& resolved) {
  return config::print_recipe(shared_part(resolved));
}

void check_servable(const config::Recipe& recipe) {
  if (recipe.data.fetch == config::FetchData::kNeeded) {
    throw UsageError(
        "[data] fetch must be \"all\" for `thinwire serve`, got \"needed\": each member chooses "
        "(`thinwire join ... data.fetch=needed`)");
  }
  member::check_hosted(recipe);
}

std::vector<std::string> shared_differences(const config::Recipe& before,
                                            const config::Recipe& now) {
  std::vector<std::string> all;
  for (const config::FieldChange& change :
       config::field_changes(shared_part(before), shared_part(now))) {
    all.push_back(fmt::format("{} was {}, is {}", change.field, change.before, change.now));
  }
  return all;
}

void check_local_overrides(std::span<const std::string> overrides) {
  for (const std::string& one : overrides) {
    const std::string field = field_of(one);
    if (is_machine_local(field)) continue;
    throw UsageError(
        fmt::format("{}: {} belongs to the run, and its coordinator sets it; a member may set "
                    "run.dir, data.dir, data.fetch, data.fetch_cache, train.init, train.threads, "
                    "train.device, train.precision, train.offload, train.offload_dir, "
                    "train.launcher, log.* and links.*",
                    one, field));
  }
  config::Recipe local = method::load_recipe({}, overrides);
  train::resolve_machine(local);
}

config::Recipe member_recipe(std::string_view text, std::span<const std::string> overrides,
                             const fs::path& run_dir, const fs::path& data_dir,
                             const std::optional<fs::path>& base) {
  const config::Recipe received =
      config::parse_recipe(text, kOrigin, {}, method::method_sections());
  refuse_paths(received);
  if (base) check_base(received, *base);
  config::Recipe recipe = config::parse_recipe(text, kOrigin, overrides, method::method_sections());
  refuse_control_characters(recipe);
  const bool threads_are_set = std::ranges::any_of(
      overrides, [](const std::string& one) { return field_of(one) == "train.threads"; });
  if (!threads_are_set) {
    const bool job = recipe.train.launcher == config::Launcher::kMpi;
    recipe.train.threads = job ? 1 : available_cores();
  }
  recipe.run.dir = run_dir.string();
  recipe.data.dir = data_dir.string();
  if (base) recipe.train.init = base->string();
  train::take_task_files(recipe, run_dir / kTasksFolder);
  method::check_choices(recipe);
  return recipe;
}

}  // namespace thinwire::hosts
