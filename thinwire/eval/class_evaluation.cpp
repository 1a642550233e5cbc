#include "thinwire/eval/class_evaluation.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/data/labels.h"
#include "thinwire/eval/class_metrics.h"

namespace thinwire::eval {
namespace {

// Texts one after another in a row, as records of labels lie there: each with a token in the place
// of its class, which begins a document of its own.
struct TextRow {
  std::vector<int32_t> tokens;
  std::vector<float> weights;
  std::vector<uint8_t> begins;
  int64_t texts = 0;

  bool fits(size_t count, int64_t longest) const {
    return tokens.empty() || std::ssize(tokens) + static_cast<int64_t>(count) <= longest;
  }
  void add(const std::vector<int32_t>& text) {
    ++texts;
    begins.push_back(1);
    begins.insert(begins.end(), text.size() - 1, 0);
    begins.push_back(1);
    weights.insert(weights.end(), text.size() - 1, 0.0F);
    weights.insert(weights.end(), {1.0F, 0.0F});
    tokens.insert(tokens.end(), text.begin(), text.end());
    tokens.push_back(0);
  }
  // The last class is a target only, not an input.
  model::RowMarks marks() const {
    const size_t predictions = tokens.size() - 1;
    return {std::span(weights).first(predictions), std::span(begins).first(predictions)};
  }
};

std::vector<int32_t> tokens_of(const ClassItem& item, const data::Vocabulary& vocabulary,
                               int64_t longest) {
  std::vector<int32_t> tokens = data::encode_classified(vocabulary, item.text, item.second);
  if (std::ssize(tokens) > longest) {
    tokens[static_cast<size_t>(longest) - 1] = tokens.back();
    tokens.resize(static_cast<size_t>(longest));
  }
  return tokens;
}

}  // namespace

std::vector<std::vector<float>> classify(const TaskItems& task, const data::Vocabulary& vocabulary,
                                         int64_t longest, model::Model& model,
                                         const std::function<void(double)>& progress) {
  std::vector<std::vector<float>> all;
  TextRow row;
  const auto compute = [&] {
    const std::vector<float> logits = model.class_logits(row.tokens, 1, row.marks());
    const size_t classes = logits.size() / static_cast<size_t>(row.texts);
    for (auto at = logits.begin(); at != logits.end(); at += static_cast<std::ptrdiff_t>(classes)) {
      all.emplace_back(at, at + static_cast<std::ptrdiff_t>(classes));
    }
    row = {};
    if (progress)
      progress(static_cast<double>(all.size()) / static_cast<double>(task.texts.size()));
  };
  for (const ClassItem& item : task.texts) {
    const std::vector<int32_t> tokens = tokens_of(item, vocabulary, longest);
    if (!row.fits(tokens.size(), longest)) compute();
    row.add(tokens);
  }
  compute();
  return all;
}

std::vector<MetricSum> class_metrics(const TaskItems& task,
                                     const std::vector<std::vector<float>>& logits) {
  ClassCounts counts{.classes = std::ssize(logits.front())};
  for (size_t i = 0; i < logits.size(); ++i) {
    const int64_t truth = task.texts[i].truth;
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
