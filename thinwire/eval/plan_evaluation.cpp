#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/model/sampler.h"

namespace thinwire::eval {
namespace {

// Where the first stop text begins that ends beyond `seen`.
size_t find_stop(const std::string& text, size_t seen, const std::vector<std::string>& stop) {
  size_t first = std::string::npos;
  for (const std::string& one : stop) {
    first = std::min(first, text.find(one, seen - std::min(seen, one.size())));
  }
  return first;
}

}  // namespace

std::string generate_text(std::span<const int32_t> prompt, const GenerationOptions& options,
                          const EndedVocabulary& vocabulary, model::Decoder& decoder) {
  decoder.reset();
  model::Sampler greedy({.temperature = 0});
  const auto is_end = [&](int32_t token) {
    return std::ranges::find(vocabulary.ends, token) != vocabulary.ends.end();
  };
  data::TextStream stream(vocabulary.vocabulary, true);
  std::string text;
  size_t end = std::string::npos;
  model::generate_tokens(decoder, greedy, prompt,
                         {options.max_tokens, vocabulary.vocabulary.size()}, [&](int32_t token) {
                           if (is_end(token)) return false;
                           const size_t seen = text.size();
                           text += stream.push(token);
                           end = find_stop(text, seen, options.stop);
                           return end == std::string::npos;
                         });
  if (end != std::string::npos) return text.substr(0, end);
  return text + stream.finish();
}

std::vector<GeneratedPlan> generate_plans(const TaskItems& task, Prompter& prompter,
                                          const EndedVocabulary& vocabulary,
                                          model::Decoder& decoder,
                                          const std::function<void(double)>& progress) {
  std::vector<Prompt> prompts;
  for (const PlanItem& item : task.plans) {
    try {
      prompts.push_back(prompter.generation_prompt(item.prompt, task.generation.max_tokens));
    } catch (const Error& error) {
      throw Error(fmt::format("task {}: item {}: {}", task.task, item.number, error.what()));
    }
  }
  std::vector<GeneratedPlan> plans;
  for (const PlanItem& item : task.plans) {
    Prompt& prompt = prompts[plans.size()];
    std::string text = generate_text(prompt.tokens, task.generation, vocabulary, decoder);
    PlanScore score = score_plan(text, item.reference);
    plans.push_back({std::move(text), std::move(score), std::move(prompt)});
    if (progress) {
      progress(static_cast<double>(plans.size()) / static_cast<double>(task.plans.size()));
    }
  }
  return plans;
}

std::vector<MetricSum> plan_metrics(const TaskItems& task,
                                    const std::vector<GeneratedPlan>& plans) {
  std::vector<MetricSum> sums;
  for (const std::string& name : task.metrics) {
    const auto right = std::ranges::count_if(plans, [&](const GeneratedPlan& plan) {
      return name == kPlanGraph ? plan.score.graph : plan.score.exact;
    });
    sums.push_back({name, static_cast<double>(right), static_cast<double>(plans.size())});
  }
  return sums;
}

}  // namespace thinwire::eval
