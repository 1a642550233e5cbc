#include "thinwire/eval/evaluate.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"

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

CutCount count_cut(std::span<const ItemPrompts> items) {
  CutCount count;
  for (const ItemPrompts& item : items) {
    for (const Prompt& prompt : item) {
      ++count.all;
      count.texts += prompt.cut > 0 ? 1 : 0;
      count.tokens += prompt.cut;
      count.choices += prompt.unscored > 0 ? 1 : 0;
      count.unscored += prompt.unscored;
    }
  }
  return count;
}

std::string cut_note(const std::string& task, const CutCount& cut, int64_t context) {
  if (cut.texts == 0) return {};
  std::string note = fmt::format(
      "{}: {} of {} do not fit into the context of {} tokens; cut off at their beginning: {}", task,
      cut.texts, counted(cut.all, "text"), context, counted(cut.tokens, "token"));
  if (cut.choices > 0) {
    note += fmt::format(", {} of them from {}, scored by the rest", cut.unscored,
                        counted(cut.choices, "choice"));
  }
  return note;
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
