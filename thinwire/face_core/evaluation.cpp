#include "thinwire/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/json.h"
#include "thinwire/base/names.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/config/sections.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/text.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/eval/task.h"
#include "thinwire/eval/text_template.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/registry.h"

namespace thinwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPerplexity = "perplexity";

void tell(const EvaluationOptions& options, const std::string& text) {
  if (options.on_message && !text.empty()) options.on_message(text);
}

// A model ready to score texts.
class Evaluation {
 public:
  Evaluation(const std::filesystem::path& folder, const EvaluationOptions& options)
      : options_(options),
        loaded_(convert::load_model(folder)),
        context_(options.context > 0 ? options.context : loaded_.sequence),
        placement_(
            model::placement_of(*value_named<config::DeviceChoice>(options.device), 0, "--device")),
        threads_(options.threads == 0 ? available_cores() : options.threads) {
    for (const std::string& notice : loaded_.notices) tell(options, notice);
    if (loaded_.vocabulary == nullptr) {
      throw Error(fmt::format("{} holds no vocabulary, so no text can be scored", folder.string()));
    }
    if (encodes()) return;
    tell(options,
         model::check_decoder_memory("evaluating", parts(),
                                     fmt::format("lower --context, which is {}", context_)));
    prompter_.emplace(*loaded_.vocabulary, loaded_.begin, context_);
    scorer_ = model::make_scorer(parts());
  }

  // Throws UsageError for a task that the model cannot do.
  void check_kind(const eval::TaskItems& task) const {
    if (!task.texts.empty() == encodes()) return;
    throw UsageError(fmt::format(
        "task {} {}", task.task,
        encodes() ? "needs a model that predicts text, and this one is an encoder"
                  : "needs an encoder (model.architecture=roberta), which predicts classes"));
  }

  // A task without items is that of the texts.
  TaskResult score(const eval::TaskItems& task) {
    if (task.task == kPerplexity) return score_texts();
    if (!task.texts.empty()) return score_classes(task);
    return task.plans.empty() ? score_choices(task) : score_plans(task);
  }

 private:
  bool encodes() const { return architecture().encodes; }
  const method::Architecture& architecture() const {
    return method::find_architecture(loaded_.model.architecture);
  }
  model::DecoderParts parts() {
    return {loaded_.model, *loaded_.params, threads_, context_, placement_};
  }

  std::function<void(double)> progress_of(const std::string& task) const {
    return [this, task](double share) {
      if (options_.on_progress) options_.on_progress(task, share);
    };
  }
  void write_item(const Json& item) const {
    if (options_.on_item) options_.on_item(print_json(item, {.replace_invalid = true}));
  }
  // Says what the context had no room for; returns the number of texts that were cut.
  int64_t tell_cut(const eval::TaskItems& task, std::span<const eval::ItemPrompts> prompts,
                   int64_t context) const {
    const eval::CutCount cut = eval::count_cut(prompts);
    tell(options_, eval::cut_note(task.task, cut, context));
    return cut.texts;
  }
  static TaskResult result_of(const std::string& task, const std::vector<eval::MetricSum>& metrics,
                              int64_t items, int64_t cut);

  TaskResult score_choices(const eval::TaskItems& task);
  TaskResult score_plans(const eval::TaskItems& task);
  TaskResult score_classes(const eval::TaskItems& task);
  TaskResult score_texts();

  const EvaluationOptions& options_;
  convert::LoadedModel loaded_;
  const int64_t context_;
  const model::Placement placement_;
  ThreadPool threads_;
  std::optional<eval::Prompter> prompter_;
  std::unique_ptr<model::Scorer> scorer_;
};

TaskResult Evaluation::result_of(const std::string& task,
                                 const std::vector<eval::MetricSum>& metrics, int64_t items,
                                 int64_t cut) {
  TaskResult result{.task = task, .metrics = {}, .items = items, .cut = cut};
  for (const eval::MetricSum& metric : metrics) {
    TaskMetric& told = result.metrics.emplace_back();
    told.name = metric.name;
    told.value = metric.value();
    const double error = metric.standard_error();
    if (!std::isnan(error)) told.standard_error = error;
  }
  return result;
}

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

TaskResult Evaluation::score_choices(const eval::TaskItems& task) {
  const std::vector<eval::ItemPrompts> prompts = eval::encode_items(task, *prompter_);
  const eval::ItemScores scores = eval::score_items(prompts, *scorer_, progress_of(task.task));
  for (size_t i = 0; i < scores.size(); ++i) {
    write_item(item_json(task, i, scores[i], prompts[i]));
  }
  return result_of(task.task, eval::item_metrics(task, scores), std::ssize(task.items),
                   tell_cut(task, prompts, context_));
}

TaskResult Evaluation::score_plans(const eval::TaskItems& task) {
  const auto decoder = model::make_decoder(parts());
  const data::Vocabulary& vocabulary = *loaded_.vocabulary;
  const std::vector<eval::GeneratedPlan> plans = eval::generate_plans(
      task, *prompter_, {vocabulary, convert::end_tokens(loaded_.origin, vocabulary)}, *decoder,
      progress_of(task.task));
  for (size_t i = 0; i < plans.size(); ++i) {
    Json json = {{"task", task.task},
                 {"item", task.plans[i].number},
                 {"text", plans[i].text},
                 {eval::kPlanGraph, plans[i].score.graph},
                 {eval::kPlanExact, plans[i].score.exact},
                 {"cut", plans[i].prompt.cut}};
    if (!plans[i].score.error.empty()) json["error"] = plans[i].score.error;
    write_item(json);
  }
  eval::ItemPrompts prompts;
  for (const eval::GeneratedPlan& plan : plans) prompts.push_back(plan.prompt);
  return result_of(task.task, eval::plan_metrics(task, plans), std::ssize(plans),
                   tell_cut(task, {&prompts, 1}, context_ - task.generation.max_tokens));
}

// A class is a whole number.
Json answer_of(const eval::TaskItems& task, size_t text) {
  const double truth = task.texts[text].truth;
  return task.numbers ? Json(truth) : Json(static_cast<int64_t>(truth));
}

TaskResult Evaluation::score_classes(const eval::TaskItems& task) {
  const int64_t longest = architecture().positions(loaded_.model);
  const int64_t outputs = architecture().outputs(loaded_.model);
  const int64_t width = longest + static_cast<int64_t>(target_tokens(outputs)) - 1;
  const auto encoder = model::make_model({loaded_.model, Precision::kFp32, *loaded_.layout,
                                          *loaded_.params, threads_, 1, width, placement_});
  const auto [logits, cut] =
      eval::classify(task, *loaded_.vocabulary, longest, outputs, *encoder, progress_of(task.task));
  for (size_t i = 0; i < logits.size(); ++i) {
    write_item(Json{{"task", task.task},
                    {"item", task.texts[i].number},
                    {"answer", answer_of(task, i)},
                    {"logits", logits[i]}});
  }
  if (cut > 0) {
    tell(options_, fmt::format("{}: {} of {} longer than the model's {} tokens, cut off there",
                               task.task, cut, counted(std::ssize(logits), "text"), longest));
  }
  return result_of(task.task, eval::class_metrics(task, logits), std::ssize(logits), cut);
}

TaskResult Evaluation::score_texts() {
  data::TextOptions reading;
  reading.document = *value_named<config::DocumentEnd>(options_.document);
  data::DocumentSource documents(data::list_inputs(options_.texts), reading);
  double log_likelihood = 0;
  int64_t words = 0, bytes = 0, count = 0;
  const auto progress = progress_of(kPerplexity);
  while (options_.limit == 0 || count < options_.limit) {
    const std::optional<std::string> text = documents.next();
    if (!text) break;
    const double done =
        static_cast<double>(documents.bytes_read()) / static_cast<double>(documents.total_bytes());
    const double own =
        eval::score_text(*text, *prompter_, *scorer_, [&](double) { progress(done); });
    const auto own_bytes = std::ssize(*text);
    write_item(Json{{"task", kPerplexity},
                    {"item", count},
                    {"log_likelihood", own},
                    {"words", eval::words(*text)},
                    {"bytes", own_bytes}});
    log_likelihood += own;
    words += eval::words(*text);
    bytes += own_bytes;
    ++count;
  }
  return result_of(kPerplexity, eval::text_metrics(log_likelihood, words, bytes), count, 0);
}

void check_texts(const std::vector<std::string>& tasks, const EvaluationOptions& options) {
  const bool texts = std::ranges::find(tasks, kPerplexity) != tasks.end();
  if (texts && options.texts.empty()) {
    throw UsageError("task perplexity scores a text: --text names the file or folder");
  }
  if (!texts && !options.texts.empty()) {
    throw UsageError("--text is for the task perplexity, which is not among the tasks");
  }
  if (!value_named<config::DocumentEnd>(options.document)) {
    throw UsageError(
        fmt::format("EvaluationOptions::document must be a value of data.document, got \"{}\"",
                    options.document));
  }
  if (value_named<config::DeviceChoice>(options.device)) return;
  throw UsageError(fmt::format(
      "EvaluationOptions::device must be a value of train.device, got \"{}\"", options.device));
}

}  // namespace

std::vector<std::string> evaluation_tasks() { return eval::task_names(); }

std::vector<TaskResult> evaluate_model(const std::filesystem::path& folder,
                                       const std::vector<std::string>& tasks,
                                       const EvaluationOptions& options) {
  check_texts(tasks, options);
  std::vector<eval::TaskItems> read;
  for (const std::string& name : tasks) {
    read.push_back(name == kPerplexity
                       ? eval::TaskItems{name, {}, {}}
                       : eval::read_items(eval::find_task(name), options.data, options.limit));
  }
  Evaluation evaluation(folder, options);
  for (const eval::TaskItems& task : read) evaluation.check_kind(task);
  std::vector<TaskResult> results;
  for (const eval::TaskItems& task : read) {
    const Stopwatch watch;
    results.push_back(evaluation.score(task));
    results.back().seconds = watch.seconds();
    if (options.on_task) options.on_task(results.back());
  }
  return results;
}

}  // namespace thinwire
