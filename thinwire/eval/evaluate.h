// Scores the items of tasks, and whole texts, under a model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/data/vocabulary.h"
#include "thinwire/eval/items.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/eval/plan_score.h"
#include "thinwire/eval/prompts.h"
#include "thinwire/model/decoder.h"
#include "thinwire/model/model.h"
#include "thinwire/model/scorer.h"

namespace thinwire::eval {

// An item's choices as tokens.
using ItemPrompts = std::vector<Prompt>;

// Throws Error naming the task and the item that the vocabulary cannot spell.
std::vector<ItemPrompts> encode_items(const TaskItems& task, Prompter& prompter);

// What the context had no room for.
struct CutCount {
  int64_t all = 0;       // texts
  int64_t texts = 0;     // of them, those that lost tokens at their beginning
  int64_t tokens = 0;    // that they lost
  int64_t choices = 0;   // of the texts, those that lost tokens to be scored
  int64_t unscored = 0;  // of the tokens, those
};
CutCount count_cut(std::span<const ItemPrompts> items);

// "piqa: 12 of 40 texts do not fit into the context of 128 tokens; cut off at their beginning: 310
// tokens, 9 of them from 1 choice, scored by the rest"; empty if nothing was cut.
std::string cut_note(const std::string& task, const CutCount& cut, int64_t context);

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

// Classes of texts, or numbers, that an encoder predicts, compared with those of a task.
struct ClassOutputs {
  // For each of the task's texts, in their order: the logits of the model's classes, or a number.
  std::vector<std::vector<float>> values;
  int64_t cut = 0;  // texts that were too long
};

// `outputs` is the number of the model's classes, or 1. Texts longer than `longest` tokens lose the
// end of what comes before their last token; the model must take rows of
// longest + target_tokens(outputs) - 1. progress(share done) is called after each pass.
ClassOutputs classify(const TaskItems& task, const data::Vocabulary& vocabulary, int64_t longest,
                      int64_t outputs, model::Model& model,
                      const std::function<void(double)>& progress = {});

// The task's metrics. Throws Error if the task has classes that the model does not distinguish, or
// if only one of the two is about numbers.
std::vector<MetricSum> class_metrics(const TaskItems& task,
                                     const std::vector<std::vector<float>>& logits);

// Plans that a model generates (function_plan.h), compared with those of a task.
struct GeneratedPlan {
  std::string text;
  PlanScore score;
  Prompt prompt = {};
};

// A vocabulary, and the tokens that end texts.
struct EndedVocabulary {
  const data::Vocabulary& vocabulary;
  std::vector<int32_t> ends;
};

// The likeliest next token, again and again, after forgetting the decoder's sequence: until an end
// token, a stop text, which is left out, or the most tokens. Throws Error as Decoder::prefill does.
std::string generate_text(std::span<const int32_t> prompt, const GenerationOptions& options,
                          const EndedVocabulary& vocabulary, model::Decoder& decoder);

// A plan for each of the task's plan items, in their order. progress(share done) is called after
// each. Throws Error, before any is generated, naming the task and the item that the vocabulary
// cannot spell, or for which there is no room in the context.
std::vector<GeneratedPlan> generate_plans(const TaskItems& task, Prompter& prompter,
                                          const EndedVocabulary& vocabulary,
                                          model::Decoder& decoder,
                                          const std::function<void(double)>& progress = {});

// The task's metrics over all its plans.
std::vector<MetricSum> plan_metrics(const TaskItems& task, const std::vector<GeneratedPlan>& plans);

}  // namespace thinwire::eval
