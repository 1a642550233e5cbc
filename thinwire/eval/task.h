// Evaluation tasks: TOML files that say where a data set's records are and how each record becomes
// texts to score, or a prompt from which a model generates a plan. tasks/ has those shipped with
// the program; docs/evaluation.md explains the fields.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/fields.h"

namespace thinwire::eval {

// What a record becomes.
enum class TaskKind {
  kChoices,       // one of several continuations is right
  kContinuation,  // one that the model should predict
  kPlan,          // a plan of function calls that the model should generate (function_plan.h)
  kClass,         // a text, or two, of which an encoder predicts the class
  kNumber,        // the same, but it predicts a number
};

// One form in which a task's data may be: a table [[source]].
struct TaskSource final : config::SectionOf<TaskSource> {
  std::string file;             // in the folder of the data
  config::StringList lines;     // names of a record's lines; empty: a line is a JSON object
  std::string answers_file;     // has each record's answer on a line of its own
  config::StringList contexts;  // templates (text_template.h): one for all choices, or one each;
                                // without continuations the texts to classify
  config::StringList continuations;  // likewise
  config::StringList labels;         // templates of what an answer may be, in the choices' order
  std::string answer;                // template of the label of the right choice, or of the number
  std::string plan;                  // template of the right plan; contexts has the prompt
  config::StringList stop;           // texts that end a generated one
  int64_t max_tokens = 256;          // of a generated text
  config::StringList metrics = {"acc", "acc_norm"};
  bool wikihow = false;  // clean_wikihow (text_template.h)
  void describe(config::Fields& fields) override;

  TaskKind kind() const {
    if (!plan.empty()) return TaskKind::kPlan;
    if (!answer.empty() && continuations.empty()) {
      return labels.empty() ? TaskKind::kNumber : TaskKind::kClass;
    }
    return answer.empty() && answers_file.empty() ? TaskKind::kContinuation : TaskKind::kChoices;
  }
};

struct Task {
  std::string name;
  std::vector<TaskSource> sources;  // the first whose file exists is used
};

// A task of the program by its name, or any task file (.toml) by its path. Throws UsageError for an
// unknown name, with the one that may be meant, and for anything wrong in a file.
Task find_task(const std::string& name_or_file);

// The files that read_items (items.h) reads in `folder`, by their paths in it, for whoever has to
// pass them on. Throws Error as read_items does for files that are missing.
std::vector<std::string> data_files(const Task& task, const fs::path& folder);

// Names of the program's tasks, in order.
std::vector<std::string> task_names();

// The task files of tasks/, which are part of the program.
struct ShippedTask {
  std::string_view name;  // of the file, without .toml
  std::string_view toml;  // its text
};

// Ordered by name.
std::span<const ShippedTask> shipped_tasks();

}  // namespace thinwire::eval
