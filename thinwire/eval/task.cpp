#include "thinwire/eval/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/config/table_list.h"
#include "thinwire/config/values.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/eval/text_template.h"

namespace thinwire::eval {
namespace {

constexpr const char* kTable = "source";
constexpr int64_t kMostTokens = 1'000'000;

void check_templates(const TaskSource& source) {
  const auto check = [](const char* field, const std::string& text) {
    try {
      const TextTemplate parsed(text);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", field, error.what()));
    }
  };
  for (const std::string& text : source.contexts) check("contexts", text);
  for (const std::string& text : source.continuations) check("continuations", text);
  for (const std::string& text : source.labels) check("labels", text);
  check("answer", source.answer);
  check("plan", source.plan);
}

// A source with a plan.
void check_plan_source(const TaskSource& source) {
  if (source.contexts.size() != 1) {
    throw UsageError(fmt::format("contexts must have one text beside plan, the prompt, got {}",
                                 source.contexts.size()));
  }
  for (const auto& [field, empty] :
       {std::pair{"continuations", source.continuations.empty()},
        std::pair{"labels", source.labels.empty()}, std::pair{"answer", source.answer.empty()},
        std::pair{"answers_file", source.answers_file.empty()}}) {
    if (!empty) throw UsageError(fmt::format("{} is not for tasks with a plan", field));
  }
}

void check_source(const TaskSource& source) {
  const TaskKind kind = source.kind();
  if (source.file.empty()) throw UsageError("file is missing: where the data is");
  for (const auto& [field, list] :
       {std::pair{"contexts", &source.contexts}, std::pair{"metrics", &source.metrics}}) {
    if (list->empty()) throw UsageError(fmt::format("{} must not be empty", field));
  }
  if (kind == TaskKind::kPlan) {
    check_plan_source(source);
  } else if (kind == TaskKind::kClass || kind == TaskKind::kNumber) {
    if (source.contexts.size() > 2) {
      throw UsageError(fmt::format(
          "contexts must have one text or two for a model to classify, got {}; choices need "
          "continuations",
          source.contexts.size()));
    }
  } else if (source.continuations.empty()) {
    throw UsageError("continuations must not be empty");
  }
  if (!source.answer.empty() && !source.answers_file.empty()) {
    throw UsageError("answer and answers_file are both given; one of them says what is right");
  }
  if (kind == TaskKind::kChoices && source.labels.empty()) {
    throw UsageError("labels is missing: what an answer may be, in the choices' order");
  }
  check_templates(source);
  check_metrics(source.metrics, kind);
}

Task make_task(const std::string& name, const std::string& toml, const std::string& origin) {
  Task task{name, config::parse_tables<TaskSource>(toml, origin, kTable)};
  for (size_t i = 0; i < task.sources.size(); ++i) {
    try {
      check_source(task.sources[i]);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: [[{}]] {}: {}", origin, kTable, i + 1, error.what()));
    }
  }
  return task;
}

}  // namespace

void TaskSource::describe(config::Fields& fields) {
  fields.text("file", file,
              "The file of records in the data's folder; it may be compressed, with a further "
              "ending .gz, .bz2 or .zst.");
  fields.list("lines", lines,
              "For plain text: a name for each of a record's lines; empty means that every line is "
              "a JSON object.");
  fields.text("answers_file", answers_file,
              "A file with the label of each record's right choice, one a line.");
  fields.list(
      "contexts", contexts,
      "What precedes the choices: one text, or one for each. Without continuations: the text, or "
      "the two texts, whose class or number an encoder predicts.");
  fields.list("continuations", continuations,
              "What is scored after the context and a space: a text for each choice, or one.");
  fields.list("labels", labels,
              "The choices' labels, in their order; empty for texts whose answer is a number.");
  fields.text("answer", answer, "The label of the right choice, or the number to predict.");
  fields.text("plan", plan,
              "The right plan of function calls; the model generates one after the context.");
  fields.list("stop", stop, "Texts that end a generated plan and do not belong to it.");
  fields.integer("max_tokens", max_tokens, "tokens", 1, kMostTokens,
                 "The most tokens of a generated plan.");
  fields.list(
      "metrics", metrics,
      "What is reported: acc, acc_norm, perplexity; of plans plan_graph, plan_exact; of classes "
      "acc, f1, mcc; of numbers pearson, spearman.");
  fields.flag("wikihow", wikihow, "Whether to remove the traces of WikiHow's mark-up from texts.");
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const ShippedTask& task : shipped_tasks()) names.emplace_back(task.name);
  return names;
}

Task find_task(const std::string& name_or_file) {
  if (name_or_file.ends_with(".toml")) {
    const fs::path file = name_or_file;
    if (!fs::is_regular_file(file)) {
      throw UsageError(fmt::format("there is no task file {}", name_or_file));
    }
    return make_task(file.stem().string(), read_text_file(file), name_or_file);
  }
  for (const ShippedTask& task : shipped_tasks()) {
    if (task.name != name_or_file) continue;
    return make_task(name_or_file, std::string(task.toml), fmt::format("task {}", task.name));
  }
  const std::vector<std::string> names = task_names();
  const std::string near = config::nearest_name(name_or_file, names);
  throw UsageError(
      fmt::format("there is no task '{}'; {}", name_or_file,
                  near.empty() ? fmt::format("there are {}, and any task file (.toml) by its path",
                                             fmt::join(names, ", "))
                               : fmt::format("did you mean {}?", near)));
}

}  // namespace thinwire::eval
