// Plans that a model generates (function_plan.h), compared with those of a task.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/eval/items.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/eval/plan_score.h"
#include "thinwire/eval/prompts.h"
#include "thinwire/model/decoder.h"

namespace thinwire::eval {

struct GeneratedPlan {
  std::string text;
  PlanScore score;
};

// The likeliest next token, again and again, after forgetting the decoder's sequence: until EOS, a
// stop text, which is left out, or the most tokens. Throws Error as Decoder::prefill does.
std::string generate_text(std::span<const int32_t> prompt, const GenerationOptions& options,
                          const data::Vocabulary& vocabulary, model::Decoder& decoder);

// A plan for each of the task's plan items, in their order. progress(share done) is called after
// each. Throws Error, before any is generated, naming the task and the item that the vocabulary
// cannot spell, or for which there is no room in the context.
std::vector<GeneratedPlan> generate_plans(const TaskItems& task, Prompter& prompter,
                                          const data::Vocabulary& vocabulary,
                                          model::Decoder& decoder,
                                          const std::function<void(double)>& progress = {});

// The task's metrics over all its plans.
std::vector<MetricSum> plan_metrics(const TaskItems& task, const std::vector<GeneratedPlan>& plans);

}  // namespace thinwire::eval
