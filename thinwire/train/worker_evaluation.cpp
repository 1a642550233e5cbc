#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/train/worker.h"

namespace thinwire::train {

bool Worker::evaluate(int64_t completed) {
  int64_t passes = 0;
  if (replica_.evaluates_own() && !evaluate_sets(completed, kOwnWeightsSuffix, passes))
    return false;
  swap_shared();
  const bool done = evaluate_sets(completed, "", passes) && evaluate_tasks(completed, passes);
  swap_shared();
  return done;
}

Learner::BeforePass Worker::before_pass(int64_t completed, std::string name, int64_t& passes) {
  const bool leads = replica_.leads(replica_.last_round());
  return [this, completed, name = std::move(name), leads, &passes](double done) {
    if (context_.sink.stops_before(point_before_pass(completed, passes++))) return false;
    if (leads) context_.sink.show_evaluation(completed, name, done);
    return true;
  };
}

bool Worker::is_recorded(int64_t completed, const std::string& name) const {
  const RunStart& start = context_.replica.start;
  return completed == start.first_step && start.evaluated.contains(name);
}

// suffix: of the names under which the sets are shown.
bool Worker::evaluate_sets(int64_t completed, const std::string& suffix, int64_t& passes) {
  const Round round = replica_.last_round();
  for (const std::string& set : learner_->sets()) {
    const std::string name = set + suffix;
    if (is_recorded(completed, name)) continue;
    const std::optional<EvalPart> part =
        learner_->evaluate(set, round, before_pass(completed, name, passes));
    if (!part) return false;
    if (name == recipe_.eval.watch) watched_ = part;
    if (!round.takes_part(communicator_.rank())) continue;
    context_.sink.add_evaluation(completed, name, communicator_.rank(), *part);
  }
  return true;
}

bool Worker::evaluate_tasks(int64_t completed, int64_t& passes) {
  const Round round = replica_.last_round();
  for (const RunTask& task : learner_->tasks()) {
    const std::vector<std::string> names = score_names(task);
    if (std::ranges::all_of(names,
                            [&](const auto& name) { return is_recorded(completed, name); })) {
      continue;
    }
    const auto metrics =
        learner_->score(task, round, before_pass(completed, task.items.task, passes));
    if (!metrics) return false;
    for (size_t i = 0; i < names.size() && round.takes_part(communicator_.rank()); ++i) {
      const eval::MetricSum& metric = (*metrics)[i];
      context_.sink.add_evaluation(
          completed, names[i], communicator_.rank(),
          {round.size(), metric.sum, static_cast<int64_t>(metric.weight), true});
    }
  }
  return true;
}

Decided Worker::decide(int64_t completed) {
  if (const auto decided = replica_.rounds().decided(completed)) {
    best_ = decided->best;
    if (!decided->stopped) context_.sink.decided(completed, *decided);
    return *decided;
  }
  if (recipe_.eval.patience == 0) return {best_};
  if (const auto part = std::exchange(watched_, std::nullopt)) {
    const Result<double> loss =
        shared_loss(communicator_, replica_.permits(), context_.replica.run_id, completed, *part,
                    recipe_.sync.timeout_s);
    if (!loss) replica_.throw_failure(completed, loss.error());
    best_.add(completed, *loss);
  }
  return {best_, best_.exhausts(recipe_.eval.patience)};
}

}  // namespace thinwire::train
