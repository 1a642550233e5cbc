// Scores the items of tasks, and whole texts, under a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "thinwire/eval/items.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/eval/prompts.h"
#include "thinwire/model/scorer.h"

namespace thinwire::eval {

// An item's choices as tokens.
using ItemPrompts = std::vector<Prompt>;

// Throws Error naming the task and the item that the vocabulary cannot spell or that is too long.
std::vector<ItemPrompts> encode_items(const TaskItems& task, Prompter& prompter);

// The scores of each item's choices.
using ItemScores = std::vector<std::vector<model::Score>>;

// progress: as for Scorer::score.
ItemScores score_items(const std::vector<ItemPrompts>& items, model::Scorer& scorer,
                       const std::function<void(double)>& progress = {});

// The task's metrics over all its items.
std::vector<MetricSum> item_metrics(const TaskItems& task, const ItemScores& scores);

// The log-likelihood of a text of any length.
double score_text(const std::string& text, Prompter& prompter, model::Scorer& scorer,
                  const std::function<void(double)>& progress = {});

}  // namespace thinwire::eval
