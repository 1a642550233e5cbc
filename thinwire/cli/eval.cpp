// thinwire eval: scores a model on evaluation tasks and texts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/config/sections.h"
#include "thinwire/evaluation.h"
#include "thinwire/events/progress.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPerplexity = "perplexity";
constexpr int64_t kMaxTokens = int64_t{1} << 32;
constexpr double kProgressInterval = 10;  // seconds

struct EvalArguments {
  std::string model;
  std::vector<std::string> tasks;
  std::string data = ".";
  std::string items;
  int threads = available_cores();
  config::DeviceChoice device = config::DeviceChoice::kCpu;
  bool json = false;
  EvaluationOptions options = {};
};

// Shows how far a task is, at most every few seconds.
class TaskProgress {
 public:
  void show(const std::string& task, double share) {
    if (task != task_) watch_ = Stopwatch();
    task_ = task;
    if (watch_.seconds() < kProgressInterval) return;
    watch_ = Stopwatch();
    events::print_message(fmt::format("{}: {:.0f} %", task, 100 * share));
  }

 private:
  std::string task_;
  Stopwatch watch_;
};

std::string results_json(const std::vector<TaskResult>& results) {
  Json tasks = Json::object();
  for (const TaskResult& result : results) {
    Json& task = tasks[result.task];
    for (const TaskMetric& metric : result.metrics) {
      task[metric.name] = metric.value;
      if (metric.standard_error) task[metric.name + "_stderr"] = *metric.standard_error;
    }
    task["items"] = result.items;
    if (result.task != kPerplexity) task["cut"] = result.cut;
  }
  return print_json(Json{{"tasks", tasks}}, {.indent = 2}) + "\n";
}

std::string results_table(const std::vector<TaskResult>& results) {
  report::Table table{{{"task", true}, {"metric", true}, {"value"}, {"±"}, {"items"}}, {}};
  for (const TaskResult& result : results) {
    for (const TaskMetric& metric : result.metrics) {
      table.rows.push_back(
          {result.task, metric.name, fmt::format("{:.4f}", metric.value),
           metric.standard_error ? fmt::format("{:.4f}", *metric.standard_error) : "",
           fmt::format("{}", result.items)});
    }
  }
  return table.terminal();
}

void run_eval(const EvalArguments& arguments) {
  std::optional<AtomicFile> items;
  TaskProgress progress;
  EvaluationOptions options = arguments.options;
  options.data = arguments.data;
  options.threads = arguments.threads;
  options.device = name_of(arguments.device);
  options.on_progress = [&](const std::string& task, double share) { progress.show(task, share); };
  options.on_message = events::print_message;
  options.on_task = [](const TaskResult& result) {
    events::print_message(fmt::format("{}: {} in {}", result.task, counted(result.items, "item"),
                                      format_seconds(result.seconds)));
  };
  if (!arguments.items.empty()) {
    items.emplace(arguments.items);
    options.on_item = [&](std::string_view line) { items->write(std::string(line) + "\n"); };
  }
  const std::vector<TaskResult> results = evaluate_model(arguments.model, arguments.tasks, options);
  if (items) {
    items->commit();
    events::print_message(fmt::format("wrote the items to {}", arguments.items));
  }
  fmt::print("{}", arguments.json ? results_json(results) : results_table(results));
}

}  // namespace

void add_eval(CLI::App& app) {
  auto* command = add_command(app, "eval", "Scores a model on evaluation tasks and texts");
  const auto arguments = std::make_shared<EvalArguments>();
  command
      ->add_option("model", arguments->model,
                   "Run folder (its newest checkpoint), checkpoint or Hugging Face folder")
      ->required()
      ->check(existing_folder());
  command
      ->add_option("tasks", arguments->tasks,
                   fmt::format("Tasks: {}, perplexity (of --text), or task files (.toml)",
                               fmt::join(evaluation_tasks(), ", ")))
      ->required();
  command
      ->add_option("--data", arguments->data,
                   "Folder with the data sets: arc/, hellaswag/, openbookqa/, piqa/, mrpc/, ...")
      ->capture_default_str();
  command
      ->add_option("--text", arguments->options.texts,
                   "For the task perplexity: .txt or .jsonl files, also compressed, or folders")
      ->check(existing_path());
  command
      ->add_option("--document", arguments->options.document,
                   "What ends a document of a .txt file of --text")
      ->check(one_of({std::begin(config::kDocumentEndNames), std::end(config::kDocumentEndNames)}))
      ->capture_default_str();
  add_count(*command, "--limit", arguments->options.limit, 1, kMaxTokens,
            "Only the first items of each task");
  command->add_flag("--json", arguments->json, "Print JSON");
  command
      ->add_option(
          "--items", arguments->items,
          "Write each item's log-likelihoods, generated text or logits into this new file, "
          "one JSON object per line")
      ->check(new_file());
  add_count(*command, "--context", arguments->options.context, 1, kMaxTokens,
            "Maximum number of tokens that the model sees at once (default: the sequence length of "
            "its training)");
  add_count(*command, "--threads", arguments->threads, 1, kMaxThreads, "Compute threads");
  add_device(*command, arguments->device);
  add_quiet_flag(command);
  command->callback([arguments] { run_eval(*arguments); });
}

}  // namespace thinwire::cli
