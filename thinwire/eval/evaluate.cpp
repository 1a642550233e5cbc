#include "thinwire/eval/evaluate.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"

namespace thinwire::eval {

std::vector<ItemPrompts> encode_items(const TaskItems& task, Prompter& prompter) {
  std::vector<ItemPrompts> items;
  for (const Item& item : task.items) {
    ItemPrompts& prompts = items.emplace_back();
    try {
      for (const Choice& choice : item.choices) {
        prompts.push_back(prompter.continuation(choice.context, choice.continuation));
      }
    } catch (const Error& error) {
      throw Error(fmt::format("task {}: item {}: {}", task.task, item.number, error.what()));
    }
  }
  return items;
}

ItemScores score_items(const std::vector<ItemPrompts>& items, model::Scorer& scorer,
                       const std::function<void(double)>& progress) {
  std::vector<model::ScoredText> texts;
  for (const ItemPrompts& item : items) {
    for (const Prompt& prompt : item) texts.push_back(prompt.text());
  }
  const std::vector<model::Score> scores = scorer.score(texts, progress);
  ItemScores by_item;
  auto next = scores.begin();
  for (const ItemPrompts& item : items) {
    by_item.emplace_back(next, next + std::ssize(item));
    next += std::ssize(item);
  }
  return by_item;
}

std::vector<MetricSum> item_metrics(const TaskItems& task, const ItemScores& scores) {
  std::vector<MetricSum> sums;
  for (const std::string& name : task.metrics) sums.push_back({name, 0, 0});
  for (size_t i = 0; i < task.items.size(); ++i) add_item(task.items[i], scores[i], sums);
  return sums;
}

double score_text(const std::string& text, Prompter& prompter, model::Scorer& scorer,
                  const std::function<void(double)>& progress) {
  const std::vector<Prompt> windows = prompter.windows(text);
  std::vector<model::ScoredText> texts;
  for (const Prompt& window : windows) texts.push_back(window.text());
  double sum = 0;
  for (const model::Score& score : scorer.score(texts, progress)) sum += score.log_likelihood;
  return sum;
}

}  // namespace thinwire::eval
