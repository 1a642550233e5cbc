#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/data/labels.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/eval/text_row.h"

namespace thinwire::eval {
namespace {

// Whether the tokens were too many.
bool shorten(std::vector<int32_t>& tokens, int64_t longest) {
  if (std::ssize(tokens) <= longest) return false;
  tokens[static_cast<size_t>(longest) - 1] = tokens.back();
  tokens.resize(static_cast<size_t>(longest));
  return true;
}

std::vector<MetricSum> number_metrics(const TaskItems& task,
                                      const std::vector<std::vector<float>>& outputs) {
  NumberMoments moments;
  std::vector<std::pair<double, double>> pairs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    pairs.emplace_back(task.texts[i].truth, outputs[i].front());
    moments.add(pairs.back().first, pairs.back().second);
  }
  const auto texts = static_cast<double>(pairs.size());
  std::vector<MetricSum> sums;
  for (const std::string& name : task.metrics) {
    sums.push_back(
        {name, texts * (name == "pearson" ? moments.pearson() : spearman(pairs)), texts});
  }
  return sums;
}

}  // namespace

ClassOutputs classify(const TaskItems& task, const data::Vocabulary& vocabulary, int64_t longest,
                      int64_t outputs, model::Model& model,
                      const std::function<void(double)>& progress) {
  const size_t target = target_tokens(outputs);
  ClassOutputs result;
  std::vector<std::vector<float>>& all = result.values;
  TextRow row;
  const auto compute = [&] {
    const std::vector<float> logits = model.class_logits(row.tokens(), 1, row.marks());
    const size_t classes = logits.size() / static_cast<size_t>(row.texts());
    for (auto at = logits.begin(); at != logits.end(); at += static_cast<std::ptrdiff_t>(classes)) {
      all.emplace_back(at, at + static_cast<std::ptrdiff_t>(classes));
    }
    row = {};
    if (progress)
      progress(static_cast<double>(all.size()) / static_cast<double>(task.texts.size()));
  };
  for (const ClassItem& item : task.texts) {
    std::vector<int32_t> tokens = data::encode_classified(vocabulary, item.text, item.second);
    result.cut += shorten(tokens, longest) ? 1 : 0;
    if (!row.fits(tokens.size(), longest)) compute();
    row.add(tokens, target);
  }
  compute();
  return result;
}

std::vector<MetricSum> class_metrics(const TaskItems& task,
                                     const std::vector<std::vector<float>>& logits) {
  ClassCounts counts{.classes = std::ssize(logits.front())};
  if (task.numbers != (counts.classes == 1)) {
    throw Error(fmt::format("task {} is about {}, but the model predicts {}", task.task,
                            task.numbers ? "numbers" : "classes",
                            task.numbers ? "classes" : "a number"));
  }
  if (task.numbers) return number_metrics(task, logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto truth = static_cast<int64_t>(task.texts[i].truth);
    if (truth >= counts.classes) {
      throw Error(fmt::format("task {}: item {} is of class {}, but the model distinguishes {}",
                              task.task, task.texts[i].number, truth, counts.classes));
    }
    counts.add(truth, likeliest_class(logits[i]));
  }
  std::vector<MetricSum> sums;
  for (const std::string& name : task.metrics) {
    const double texts = static_cast<double>(counts.texts);
    for (const auto& [metric, value] : counts.metrics()) {
      if (metric == name) sums.push_back({name, value * texts, texts});
    }
  }
  if (sums.size() == task.metrics.size()) return sums;
  throw Error(
      fmt::format("task {} reports f1 or mcc, which are of two classes; the model "
                  "distinguishes {}",
                  task.task, counts.classes));
}

}  // namespace thinwire::eval
