#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::report {
namespace {

constexpr size_t kLongestName = 80;
constexpr size_t kHashDigits = 8;

std::string without_quotes(const std::string& text) {
  const bool quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// The last part of a field's name, or all of it if another swept field ends the same way.
std::string short_name(const Grid& grid, const std::string& field) {
  const auto last_part = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  const auto same = std::ranges::count_if(
      grid.swept, [&](const std::string& other) { return last_part(other) == last_part(field); });
  return same > 1 ? field : last_part(field);
}

// A name that is valid for both a folder and run.name.
std::string file_name(std::string label, uint64_t identity) {
  for (char& c : label) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    if (!plain) c = c == '=' ? '-' : '_';
  }
  label.resize(std::min(label.size(), kLongestName));
  return fmt::format("{}{}{}", label, label.empty() ? "" : "_",
                     to_hex(identity).substr(0, kHashDigits));
}

std::vector<std::string> overrides_of(const Grid& grid, size_t point, const std::string& seed) {
  std::vector<std::string> overrides;
  for (const auto& [field, value] : grid.fixed)
    overrides.push_back(fmt::format("{}={}", field, value));
  for (const auto& [field, value] : grid.points[point])
    overrides.push_back(fmt::format("{}={}", field, value));
  if (!seed.empty()) overrides.push_back("run.seed=" + seed);
  return overrides;
}

void add_new(const std::vector<std::string>& notices, std::vector<std::string>& all) {
  for (const std::string& notice : notices) {
    if (std::ranges::find(all, notice) == all.end()) all.push_back(notice);
  }
}

std::string joined(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + " " + second;
}

// Messages about a recipe name the grid file and the point concerned.
config::Recipe point_recipe(const Grid& grid, const std::string& label,
                            const std::vector<std::string>& overrides) {
  try {
    return method::load_recipe(grid.recipe, overrides);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}{}", grid.origin,
                                 label.empty() ? "" : "point " + label + ": ", error.what()));
  }
}

}  // namespace

std::string point_label(const Grid& grid, size_t point) {
  std::string label;
  for (const auto& [field, value] : grid.points[point]) {
    label = joined(label, short_name(grid, field) + "=" + without_quotes(value));
  }
  return label;
}

SweepPlan plan_sweep(Grid grid, const fs::path& out, const std::string& program) {
  SweepPlan plan;
  const std::vector<std::string> seeds =
      grid.seeds.empty() ? std::vector<std::string>{""} : grid.seeds;
  std::map<fs::path, std::string> taken;
  for (size_t point = 0; point < grid.points.size(); ++point) {
    for (const std::string& seed : seeds) {
      std::vector<std::string> overrides = overrides_of(grid, point, seed);
      const std::string label =
          joined(point_label(grid, point), seed.empty() ? "" : "seed=" + seed);
      const config::Recipe recipe = point_recipe(grid, label, overrides);
      add_new(recipe.notices, plan.notices);
      const std::string name =
          file_name(label, hash_bytes(as_bytes(checkpoint::run_identity(recipe))));
      const fs::path folder = out / name;
      if (!taken.emplace(folder, label).second) {
        throw UsageError(
            fmt::format("{}: two runs of the sweep are the same: {}", grid.origin, label));
      }
      overrides.push_back("run.name=" + name);
      overrides.push_back("run.dir=" + folder.string());
      std::vector<std::string> command = {program, "train", grid.recipe.string()};
      command.insert(command.end(), overrides.begin(), overrides.end());
      plan.runs.push_back(
          {point, seed, {label.empty() ? name : label, folder, std::move(command)}});
      plan.threads_per_run = std::max(
          plan.threads_per_run, static_cast<int>(recipe.train.workers * recipe.train.threads));
    }
  }
  plan.grid = std::move(grid);
  return plan;
}

}  // namespace thinwire::report
