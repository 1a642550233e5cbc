// Scores a model on evaluation tasks and texts, as `thinwire eval` does (docs/evaluation.md).
// Target thinwire::core.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

struct TaskMetric {
  std::string name;  // "acc"
  double value = 0;
  std::optional<double> standard_error = {};  // of a share, such as an accuracy
};

struct TaskResult {
  std::string task;
  std::vector<TaskMetric> metrics;
  int64_t items = 0;   // that were scored
  int64_t cut = 0;     // texts that the model could see only a part of
  double seconds = 0;  // that it took
};

struct EvaluationOptions {
  std::filesystem::path data = ".";  // the folder of the tasks' data sets
  // For the task "perplexity": files and folders of text, and what ends a document of a .txt file,
  // a value of data.document.
  std::vector<std::string> texts = {};
  std::string document = "file";
  int64_t limit = 0;           // items of a task, the first ones; 0: all
  int64_t context = 0;         // most tokens that the model sees at once; 0: as it was trained
  int threads = 0;             // which compute; 0: as many as there are cores
  std::string device = "cpu";  // what computes: a value of train.device
  // These are called on the calling thread. Each may be empty.
  std::function<void(const std::string& task, double share)> on_progress = {};  // from 0 to 1
  std::function<void(const TaskResult&)> on_task = {};                          // a task is done
  std::function<void(std::string_view line)> on_item = {};  // one line of JSON for each item
  std::function<void(std::string_view)> on_message = {};    // what the user should know
};

// The names of the tasks that come with Thinwire.
std::vector<std::string> evaluation_tasks();

// `folder`: of a run (its newest checkpoint), a checkpoint, or a Hugging Face folder. `tasks`:
// names of evaluation_tasks(), "perplexity", or task files (.toml). All data are read before the
// model is. Throws UsageError for an unknown task, for one that a model of this kind cannot do, and
// for texts without the task "perplexity" or that task without texts; Error for data that are
// missing or damaged, and for texts that the model's vocabulary cannot spell.
std::vector<TaskResult> evaluate_model(const std::filesystem::path& folder,
                                       const std::vector<std::string>& tasks,
                                       const EvaluationOptions& options = {});

}  // namespace thinwire
