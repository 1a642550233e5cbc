// thinwire eval: scores a model on evaluation tasks and texts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/text.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/eval/task.h"
#include "thinwire/eval/text_template.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/registry.h"
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
  std::vector<std::string> texts;
  std::string document = "file";  // a name of config::DocumentEnd
  std::string items;
  int64_t limit = 0;
  int64_t context = 0;
  int threads = available_cores();
  config::DeviceChoice device = config::DeviceChoice::kCpu;
  bool json = false;
};

struct TaskResult {
  std::string name;
  std::vector<eval::MetricSum> metrics;
  int64_t items = 0;
  int64_t cut = 0;  // texts that the model could see only a part of
};

// Shows how far a task is, at most every few seconds.
class TaskProgress {
 public:
  explicit TaskProgress(std::string task) : task_(std::move(task)) {}
  void operator()(double fraction) {
    if (watch_.seconds() < kProgressInterval) return;
    watch_ = Stopwatch();
    events::print_message(fmt::format("{}: {:.0f} %", task_, 100 * fraction));
  }

 private:
  std::string task_;
  Stopwatch watch_;
};

// A model ready to score texts.
struct Evaluated {
  explicit Evaluated(const EvalArguments& arguments)
      : loaded(convert::load_model(arguments.model)),
        context(arguments.context > 0 ? arguments.context : loaded.sequence),
        placement(model::placement_of(arguments.device, 0, kDeviceOption)),
        threads(arguments.threads) {
    for (const std::string& notice : loaded.notices) events::print_message(notice);
    if (loaded.vocabulary == nullptr) {
      throw Error(fmt::format("{} holds no vocabulary, so no text can be scored", arguments.model));
    }
    if (encodes()) return;
    const std::string warning = model::check_decoder_memory(
        "evaluating", parts(), fmt::format("lower --context, which is {}", context));
    if (!warning.empty()) events::print_message(warning);
    prompter.emplace(*loaded.vocabulary, loaded.begin, context);
    scorer = model::make_scorer(parts());
  }
  bool encodes() const { return architecture().encodes; }
  const method::Architecture& architecture() const {
    return method::find_architecture(loaded.model.architecture);
  }

  model::DecoderParts parts() {
    return {loaded.model, *loaded.params, threads, context, placement};
  }

  convert::LoadedModel loaded;
  int64_t context;
  model::Placement placement;
  ThreadPool threads;
  std::optional<eval::Prompter> prompter;
  std::unique_ptr<model::Scorer> scorer;
};

Json item_json(const eval::TaskItems& task, size_t i, const std::vector<model::Score>& scores,
               const eval::ItemPrompts& prompts) {
  const eval::Item& item = task.items[i];
  Json json = {{"task", task.task}, {"item", item.number}};
  if (item.answer >= 0) json["answer"] = item.answer;
  for (size_t choice = 0; choice < scores.size(); ++choice) {
    json["log_likelihoods"].push_back(scores[choice].log_likelihood);
    json["greedy"].push_back(scores[choice].greedy);
    json["tokens"].push_back(std::ssize(prompts[choice].tokens) - prompts[choice].scored);
    json["cut"].push_back(prompts[choice].cut);
  }
  return json;
}

// Says what the context had no room for; returns the number of texts that were cut.
int64_t report_cut(const eval::TaskItems& task, std::span<const eval::ItemPrompts> prompts,
                   int64_t context) {
  const eval::CutCount cut = eval::count_cut(prompts);
  const std::string note = eval::cut_note(task.task, cut, context);
  if (!note.empty()) events::print_message(note);
  return cut.texts;
}

std::string json_line(const Json& json) {
  return print_json(json, {.replace_invalid = true}) + "\n";
}

TaskResult run_task(const eval::TaskItems& task, Evaluated& model, AtomicFile* items) {
  const std::vector<eval::ItemPrompts> prompts = eval::encode_items(task, *model.prompter);
  TaskProgress progress(task.task);
  const eval::ItemScores scores =
      eval::score_items(prompts, *model.scorer, [&](double fraction) { progress(fraction); });
  for (size_t i = 0; items != nullptr && i < scores.size(); ++i) {
    items->write(json_line(item_json(task, i, scores[i], prompts[i])));
  }
  return {task.task, eval::item_metrics(task, scores), std::ssize(task.items),
          report_cut(task, prompts, model.context)};
}

TaskResult run_plans(const eval::TaskItems& task, Evaluated& model, AtomicFile* items) {
  const auto decoder = model::make_decoder(model.parts());
  TaskProgress progress(task.task);
  const data::Vocabulary& vocabulary = *model.loaded.vocabulary;
  const std::vector<eval::GeneratedPlan> plans = eval::generate_plans(
      task, *model.prompter, {vocabulary, convert::end_tokens(model.loaded.origin, vocabulary)},
      *decoder, [&](double fraction) { progress(fraction); });
  for (size_t i = 0; items != nullptr && i < plans.size(); ++i) {
    Json json = {{"task", task.task},
                 {"item", task.plans[i].number},
                 {"text", plans[i].text},
                 {eval::kPlanGraph, plans[i].score.graph},
                 {eval::kPlanExact, plans[i].score.exact},
                 {"cut", plans[i].prompt.cut}};
    if (!plans[i].score.error.empty()) json["error"] = plans[i].score.error;
    items->write(json_line(json));
  }
  eval::ItemPrompts prompts;
  for (const eval::GeneratedPlan& plan : plans) prompts.push_back(plan.prompt);
  return {task.task, eval::plan_metrics(task, plans), std::ssize(plans),
          report_cut(task, {&prompts, 1}, model.context - task.generation.max_tokens)};
}

// A class is a whole number.
Json answer_of(const eval::TaskItems& task, size_t text) {
  const double truth = task.texts[text].truth;
  return task.numbers ? Json(truth) : Json(static_cast<int64_t>(truth));
}

TaskResult run_classes(const eval::TaskItems& task, Evaluated& model, AtomicFile* items) {
  const int64_t longest = model.architecture().positions(model.loaded.model);
  const int64_t outputs = model.architecture().outputs(model.loaded.model);
  const int64_t width = longest + static_cast<int64_t>(target_tokens(outputs)) - 1;
  const auto encoder =
      model::make_model({model.loaded.model, Precision::kFp32, *model.loaded.layout,
                         *model.loaded.params, model.threads, 1, width, model.placement});
  TaskProgress progress(task.task);
  const auto [logits, cut] = eval::classify(task, *model.loaded.vocabulary, longest, outputs,
                                            *encoder, [&](double fraction) { progress(fraction); });
  for (size_t i = 0; items != nullptr && i < logits.size(); ++i) {
    items->write(json_line(Json{{"task", task.task},
                                {"item", task.texts[i].number},
                                {"answer", answer_of(task, i)},
                                {"logits", logits[i]}}));
  }
  if (cut > 0) {
    events::print_message(
        fmt::format("{}: {} of {} longer than the model's {} tokens, cut off there", task.task, cut,
                    counted(std::ssize(logits), "text"), longest));
  }
  return {task.task, eval::class_metrics(task, logits), std::ssize(logits), cut};
}

// Throws UsageError for a task that the model cannot do.
void check_kind(const eval::TaskItems& task, const Evaluated& model) {
  if (!task.texts.empty() == model.encodes()) return;
  throw UsageError(fmt::format(
      "task {} {}", task.task,
      model.encodes() ? "needs a model that predicts text, and this one is an encoder"
                      : "needs an encoder (model.architecture=roberta), which predicts classes"));
}

TaskResult run_texts(const EvalArguments& arguments, Evaluated& model, AtomicFile* items) {
  data::TextOptions options;
  options.document = *value_named<config::DocumentEnd>(arguments.document);
  data::DocumentSource documents(data::list_inputs(arguments.texts), options);
  double log_likelihood = 0;
  int64_t words = 0, bytes = 0, count = 0;
  TaskProgress progress(kPerplexity);
  while (arguments.limit == 0 || count < arguments.limit) {
    const std::optional<std::string> text = documents.next();
    if (!text) break;
    const double done =
        static_cast<double>(documents.bytes_read()) / static_cast<double>(documents.total_bytes());
    const double own =
        eval::score_text(*text, *model.prompter, *model.scorer, [&](double) { progress(done); });
    const auto own_bytes = std::ssize(*text);
    if (items != nullptr) {
      items->write(json_line(Json{{"task", kPerplexity},
                                  {"item", count},
                                  {"log_likelihood", own},
                                  {"words", eval::words(*text)},
                                  {"bytes", own_bytes}}));
    }
    log_likelihood += own;
    words += eval::words(*text);
    bytes += own_bytes;
    ++count;
  }
  return {kPerplexity, eval::text_metrics(log_likelihood, words, bytes), count};
}

std::string results_json(const std::vector<TaskResult>& results) {
  Json tasks = Json::object();
  for (const TaskResult& result : results) {
    Json& task = tasks[result.name];
    for (const eval::MetricSum& metric : result.metrics) {
      task[metric.name] = metric.value();
      const double error = metric.standard_error();
      if (!std::isnan(error)) task[metric.name + "_stderr"] = error;
    }
    task["items"] = result.items;
    if (result.name != kPerplexity) task["cut"] = result.cut;
  }
  return print_json(Json{{"tasks", tasks}}, {.indent = 2}) + "\n";
}

std::string results_table(const std::vector<TaskResult>& results) {
  report::Table table{{{"task", true}, {"metric", true}, {"value"}, {"±"}, {"items"}}, {}};
  for (const TaskResult& result : results) {
    for (const eval::MetricSum& metric : result.metrics) {
      const double error = metric.standard_error();
      table.rows.push_back({result.name, metric.name, fmt::format("{:.4f}", metric.value()),
                            std::isnan(error) ? "" : fmt::format("{:.4f}", error),
                            fmt::format("{}", result.items)});
    }
  }
  return table.terminal();
}

void check_use(const EvalArguments& arguments) {
  const bool texts = std::ranges::find(arguments.tasks, kPerplexity) != arguments.tasks.end();
  if (texts && arguments.texts.empty()) {
    throw UsageError("task perplexity scores a text: --text names the file or folder");
  }
  if (!texts && !arguments.texts.empty()) {
    throw UsageError("--text is for the task perplexity, which is not among the tasks");
  }
}

void run_eval(const EvalArguments& arguments) {
  check_use(arguments);
  std::vector<eval::TaskItems> tasks;  // texts: without items
  for (const std::string& name : arguments.tasks) {
    tasks.push_back(name == kPerplexity
                        ? eval::TaskItems{name, {}, {}}
                        : eval::read_items(eval::find_task(name), arguments.data, arguments.limit));
  }
  std::optional<AtomicFile> items;
  if (!arguments.items.empty()) items.emplace(arguments.items);
  AtomicFile* const written = items ? &*items : nullptr;
  Evaluated model(arguments);
  for (const eval::TaskItems& task : tasks) check_kind(task, model);
  std::vector<TaskResult> results;
  for (const eval::TaskItems& task : tasks) {
    const Stopwatch watch;
    results.push_back(task.task == kPerplexity ? run_texts(arguments, model, written)
                      : !task.texts.empty()    ? run_classes(task, model, written)
                      : task.plans.empty()     ? run_task(task, model, written)
                                               : run_plans(task, model, written));
    events::print_message(fmt::format("{}: {} in {}", task.task,
                                      counted(results.back().items, "item"),
                                      format_seconds(watch.seconds())));
  }
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
                               fmt::join(eval::task_names(), ", ")))
      ->required();
  command
      ->add_option("--data", arguments->data,
                   "Folder with the data sets: arc/, hellaswag/, openbookqa/, piqa/, mrpc/, ...")
      ->capture_default_str();
  command
      ->add_option("--text", arguments->texts,
                   "For the task perplexity: .txt or .jsonl files, also compressed, or folders")
      ->check(existing_path());
  command
      ->add_option("--document", arguments->document,
                   "What ends a document of a .txt file of --text")
      ->check(one_of({std::begin(config::kDocumentEndNames), std::end(config::kDocumentEndNames)}))
      ->capture_default_str();
  add_count(*command, "--limit", arguments->limit, 1, kMaxTokens,
            "Only the first items of each task");
  command->add_flag("--json", arguments->json, "Print JSON");
  command
      ->add_option(
          "--items", arguments->items,
          "Write each item's log-likelihoods, generated text or logits into this new file, "
          "one JSON object per line")
      ->check(new_file());
  add_count(*command, "--context", arguments->context, 1, kMaxTokens,
            "Maximum number of tokens that the model sees at once (default: the sequence length of "
            "its training)");
  add_count(*command, "--threads", arguments->threads, 1, kMaxThreads, "Compute threads");
  add_device(*command, arguments->device);
  add_quiet_flag(command);
  command->callback([arguments] { run_eval(*arguments); });
}

}  // namespace thinwire::cli
