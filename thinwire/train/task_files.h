// The evaluation tasks of a run of many hosts (eval.tasks): its members receive the task files and
// the data that they name, in a folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/eval/task.h"
#include "thinwire/train/run_tasks.h"

namespace thinwire::train {

struct TaskFile {
  std::string name;  // its path in the members' folder
  fs::path path;
};

// Throws UsageError for a task that names a file outside the folder of the data: members receive
// only those inside, and read no others.
void check_task_sources(const eval::Task& task);

// What the members need of a recipe's tasks besides the program. Throws UsageError for two task
// files of one name and as check_task_sources, and what read_run_tasks does for tasks and files
// that are not there.
std::vector<TaskFile> task_files(const config::Recipe& recipe);

// The name of a task without the folder of its file: "words.toml".
std::string task_name(const std::string& name_or_file);

// Makes a recipe whose task files have such names read them and their data in `folder`, which has
// the files above.
void take_task_files(config::Recipe& recipe, const fs::path& folder);

// As read_run_tasks and check_task_sources, for a member: `kept` has the file with what checkpoints
// keep of the model (convert::load_origin), if there is one.
std::vector<RunTask> read_member_tasks(const config::Recipe& recipe,
                                       const data::Vocabulary& vocabulary, const fs::path& kept);

// The value of a metric, "words.acc", from the sum over `weight` items.
double score_value(std::string_view name, double sum, double weight);

}  // namespace thinwire::train
