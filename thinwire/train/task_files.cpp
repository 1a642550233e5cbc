#include "thinwire/train/task_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "thinwire/base/error.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/eval/task.h"

namespace thinwire::train {
namespace {

constexpr const char* kDataFolder = "data";

bool is_file_name(const std::string& task) { return task.ends_with(".toml"); }

bool is_inside(const fs::path& name) {
  const fs::path normal = name.lexically_normal();
  return !normal.has_root_path() && (normal.empty() || *normal.begin() != "..");
}

}  // namespace

std::string task_name(const std::string& name_or_file) {
  return is_file_name(name_or_file) ? fs::path(name_or_file).filename().string() : name_or_file;
}

void check_task_sources(const eval::Task& task) {
  for (const eval::TaskSource& source : task.sources) {
    for (const std::string& file : {source.file, source.answers_file}) {
      if (is_inside(file)) continue;
      throw UsageError(fmt::format(
          "[eval] tasks: task {} reads {}, which is not in the folder of the data (eval.data); "
          "members of a run of many hosts have only what is in it: move the file there, and name "
          "it by its path in that folder",
          task.name, file));
    }
  }
}

std::vector<TaskFile> task_files(const config::Recipe& recipe) {
  std::vector<TaskFile> files;
  std::set<std::string> names;
  const auto add = [&](const std::string& name, const fs::path& path) {
    if (names.insert(name).second) files.push_back({name, path});
  };
  for (const std::string& task : recipe.eval.tasks) {
    if (is_file_name(task)) {
      const std::string name = task_name(task);
      if (names.contains(name)) {
        throw UsageError(fmt::format(
            "[eval] tasks: two files have the name {}; members tell them apart by it", name));
      }
      add(name, task);
    }
    const eval::Task found = eval::find_task(task);
    check_task_sources(found);
    for (const std::string& data : eval::data_files(found, recipe.eval.data)) {
      add((fs::path(kDataFolder) / data).string(), fs::path(recipe.eval.data) / data);
    }
  }
  return files;
}

void take_task_files(config::Recipe& recipe, const fs::path& folder) {
  if (recipe.eval.tasks.empty()) return;
  for (std::string& task : recipe.eval.tasks) {
    if (is_file_name(task)) task = (folder / task_name(task)).string();
  }
  recipe.eval.data = (folder / kDataFolder).string();
}

double score_value(std::string_view name, double sum, double weight) {
  const std::string metric(name.substr(name.rfind('.') + 1));
  return eval::MetricSum{metric, sum, weight}.value();
}

}  // namespace thinwire::train
