#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/number_tokens.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/collector.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/round_source.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {
namespace {

// Adds the texts of rows, given the logits [texts, outputs].
void add_classes(const data::RowBlock& block, int64_t sequence, std::span<const float> logits,
                 EvalPart& part) {
  std::vector<size_t> targets;
  for (size_t i = 0; i < block.weights.size(); ++i) {
    const size_t row = i / static_cast<size_t>(sequence);
    if (block.weights[i] != 0) targets.push_back(i + row + 1);
  }
  const size_t outputs = logits.size() / targets.size();
  for (size_t text = 0; text < targets.size(); ++text) {
    const auto own = logits.subspan(text * outputs, outputs);
    const auto target = std::span(block.tokens).subspan(targets[text]);
    if (outputs == 1) {
      const double truth = number_of_tokens(target), error = own[0] - truth;
      part.loss_sum += error * error;
      part.numbers.add(truth, own[0]);
      continue;
    }
    part.loss_sum += eval::class_loss(own, target[0]);
    part.classes.classes = static_cast<int64_t>(outputs);
    part.classes.add(target[0], eval::likeliest_class(own));
  }
}

}  // namespace

bool Worker::evaluate(int64_t completed) {
  int64_t passes = 0;
  if (replica_.evaluates_own() && !evaluate_sets(completed, "_own", passes)) return false;
  swap_shared();
  const bool done = evaluate_sets(completed, "", passes) && evaluate_tasks(completed, passes);
  swap_shared();
  return done;
}

bool Worker::evaluate_sets(int64_t completed, const std::string& suffix, int64_t& passes) {
  for (const auto& [set, rows] : context_.data.validation) {
    const std::string name = set + suffix;
    if (completed == context_.replica.start.first_step &&
        context_.replica.start.evaluated.contains(name))
      continue;
    const std::optional<EvalPart> part = evaluate_rows(completed, set, suffix, passes);
    if (!part) return false;
    if (name == recipe_.eval.watch) watched_ = part;
    if (!replica_.last_round().takes_part(communicator_.rank())) continue;
    context_.sink.add_evaluation(completed, name, communicator_.rank(), *part);
  }
  return true;
}

bool Worker::evaluate_tasks(int64_t completed, int64_t& passes) {
  if (context_.data.tasks.empty()) return true;
  const auto scorer = model::make_scorer(
      {method::ModelSpec(recipe_), replica_.params(), replica_.threads(), recipe_.train.sequence});
  for (const RunTask& task : context_.data.tasks) {
    const std::vector<std::string> names = score_names(task);
    const bool recorded = std::ranges::all_of(names, [&](const std::string& name) {
      return context_.replica.start.evaluated.contains(name);
    });
    if (completed == context_.replica.start.first_step && recorded) continue;
    const auto metrics = score_task(completed, task, *scorer, passes);
    if (!metrics) return false;
    const Round round = replica_.last_round();
    for (size_t i = 0; i < names.size() && round.takes_part(communicator_.rank()); ++i) {
      const eval::MetricSum& metric = (*metrics)[i];
      context_.sink.add_evaluation(
          completed, names[i], communicator_.rank(),
          {round.size(), metric.sum, static_cast<int64_t>(metric.weight), true});
    }
  }
  return true;
}

std::optional<std::vector<eval::MetricSum>> Worker::score_task(int64_t completed,
                                                               const RunTask& task,
                                                               model::Scorer& scorer,
                                                               int64_t& passes) {
  struct Stopped {};
  const Round round = replica_.last_round();
  const RowRange mine = share_of(round, communicator_.rank(), task.items.items.size());
  try {
    return score_range(task, mine, scorer, [&](double fraction) {
      if (context_.sink.stops_before(point_before_pass(completed, passes++))) throw Stopped();
      if (replica_.leads(round))
        context_.sink.show_evaluation(completed, task.items.task, fraction);
    });
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

bool Worker::exhausts_patience(int64_t completed) {
  if (recipe_.eval.patience == 0) return false;
  if (const auto part = std::exchange(watched_, std::nullopt)) {
    const Result<double> loss =
        shared_loss(communicator_, replica_.permits(), context_.replica.run_id, completed, *part,
                    recipe_.sync.timeout_s);
    if (!loss) replica_.throw_failure(completed, loss.error());
    best_.add(completed, *loss);
  }
  return best_.exhausts(recipe_.eval.patience);
}

std::optional<EvalPart> Worker::evaluate_rows(int64_t completed, const std::string& set,
                                              const std::string& suffix, int64_t& passes) {
  const data::Rows& rows = context_.data.validation.at(set);
  const uint64_t all = evaluated_rows(recipe_.eval, rows);
  const Round round = replica_.last_round();
  const RowRange mine = share_of(round, communicator_.rank(), all);
  EvalPart part{.members = round.size()};
  for (uint64_t done = 0; done < mine.count; ++passes) {
    if (context_.sink.stops_before(point_before_pass(completed, passes))) return std::nullopt;
    if (replica_.leads(round)) {
      const double fraction = static_cast<double>(done) / static_cast<double>(mine.count);
      context_.sink.show_evaluation(completed, set + suffix, fraction);
    }
    std::vector<uint64_t> places(std::min(static_cast<uint64_t>(max_rows_), mine.count - done));
    for (uint64_t& place : places) {
      // Rows are spread over the whole set if only a part of it is used.
      place = (mine.first + done++) * rows.count() / all;
      part.tokens += rows.counted(place);
    }
    const data::RowBlock block = rows.read(places);
    const model::RowMarks marks = {block.weights, block.begins};
    if (context_.data.reference) {
      PairLoss loss(recipe_.preference, context_.data.reference->of(set, rows, places));
      part.loss_sum += model_->loss(block.tokens, std::ssize(places), marks, loss);
      part.pairs.add(loss.sums());
    } else if (rows.labelled()) {
      add_classes(block, rows.sequence(),
                  model_->class_logits(block.tokens, std::ssize(places), marks), part);
    } else {
      part.loss_sum += model_->loss(block.tokens, std::ssize(places), marks);
    }
  }
  return part;
}

}  // namespace thinwire::train
