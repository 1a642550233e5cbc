#include "thinwire/train/run_tasks.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/convert/load.h"
#include "thinwire/eval/task.h"
#include "thinwire/train/task_files.h"

namespace thinwire::train {

namespace {

// `begin`: the token with which texts begin; -1: none.
std::vector<RunTask> read_tasks(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                                int32_t begin) {
  std::vector<RunTask> tasks;
  eval::Prompter prompter(vocabulary, begin, recipe.train.sequence);
  for (const std::string& name : recipe.eval.tasks) {
    eval::TaskItems items =
        eval::read_items(eval::find_task(name), recipe.eval.data, recipe.eval.limit);
    if (!items.plans.empty()) {
      throw UsageError(fmt::format(
          "eval.tasks has {}, which generates text; only thinwire eval does that", name));
    }
    if (!items.texts.empty()) {
      throw UsageError(fmt::format("eval.tasks has {}, which needs an encoder", name));
    }
    std::vector<eval::ItemPrompts> prompts = eval::encode_items(items, prompter);
    std::string note = eval::cut_note(items.task, eval::count_cut(prompts), recipe.train.sequence);
    tasks.push_back({std::move(items), std::move(prompts), std::move(note)});
  }
  return tasks;
}

}  // namespace

std::vector<RunTask> read_run_tasks(const config::Recipe& recipe,
                                    const data::Vocabulary& vocabulary, const fs::path& resumed) {
  if (recipe.eval.tasks.empty()) return {};
  const fs::path source = resumed.empty() ? fs::path(recipe.train.init) : resumed;
  return read_tasks(recipe, vocabulary,
                    convert::begin_in_training(source, vocabulary, recipe.data.records));
}

std::vector<RunTask> read_member_tasks(const config::Recipe& recipe,
                                       const data::Vocabulary& vocabulary, const fs::path& kept) {
  if (recipe.eval.tasks.empty()) return {};
  for (const std::string& name : recipe.eval.tasks) check_task_sources(eval::find_task(name));
  return read_tasks(
      recipe, vocabulary,
      convert::begin_in_training(convert::load_origin(kept), vocabulary, recipe.data.records));
}

std::vector<std::string> score_names(const RunTask& task) {
  std::vector<std::string> names;
  for (const std::string& metric : task.items.metrics) {
    names.push_back(task.items.task + "." + metric);
  }
  return names;
}

std::vector<eval::MetricSum> score_range(const RunTask& task, const RowRange& items,
                                         model::Scorer& scorer,
                                         const std::function<void(double)>& progress) {
  const auto first = static_cast<std::ptrdiff_t>(items.first);
  const auto end = first + static_cast<std::ptrdiff_t>(items.count);
  const eval::TaskItems some = {task.items.task,
                                task.items.metrics,
                                {task.items.items.begin() + first, task.items.items.begin() + end}};
  const std::vector<eval::ItemPrompts> prompts(task.prompts.begin() + first,
                                               task.prompts.begin() + end);
  return eval::item_metrics(some, eval::score_items(prompts, scorer, progress));
}

}  // namespace thinwire::train
