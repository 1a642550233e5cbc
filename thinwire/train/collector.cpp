#include "thinwire/train/collector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/eval/metrics.h"

namespace thinwire::train {

void PairSums::add(const PairSums& other) {
  pairs += other.pairs;
  right += other.right;
  chosen += other.chosen;
  rejected += other.rejected;
}

events::Rewards PairSums::means() const {
  const auto count = static_cast<double>(pairs);
  return {static_cast<double>(right) / count, (chosen - rejected) / count, chosen / count,
          rejected / count};
}

void Collector::add_step(int64_t step, int worker, const StepPart& part) {
  const Lock lock(mutex_);
  recorder_.worker_step(
      {worker, step, part.data_s + part.compute_s + part.update_s, part.exchange_s});
  Parts<StepPart>& parts = steps_[step];
  parts[worker] = part;
  if (std::ssize(parts) < part.members) return;
  complete_step(step, parts);
  steps_.erase(step);
}

void Collector::note_shares(int64_t step, const Parts<StepPart>& parts) {
  std::vector<int64_t> tokens;
  for (const auto& [member, part] : parts) tokens.push_back(part.tokens);
  if (!tokens_of_.empty() && tokens != tokens_of_) {
    const bool alone = tokens.size() == 1;
    recorder_.message(step, fmt::format("from step {} on, {} on {} tokens a step (before: {})",
                                        step, alone ? "this member trains" : "the workers train",
                                        fmt::join(tokens, ", "), fmt::join(tokens_of_, ", ")));
  }
  tokens_of_ = std::move(tokens);
}

void Collector::complete_step(int64_t step, const Parts<StepPart>& parts) {
  note_shares(step, parts);
  const auto& [first_worker, first] = *parts.begin();
  StepPart sum;
  int trained = 0;
  for (const auto& [worker, part] : parts) {
    if (part.synchronised && part.digest != first.digest) {
      throw Error(
          fmt::format("step {}: the replicas disagree: worker {} has digest {}, worker {} has {}",
                      step, first_worker, to_hex(first.digest), worker, to_hex(part.digest)));
    }
    if (part.synchronised && part.state_digest != first.state_digest) {
      throw Error(fmt::format(
          "step {}: the replicas disagree: the shared state of worker {} has digest {}, "
          "that of worker {} has {}",
          step, first_worker, to_hex(first.state_digest), worker, to_hex(part.state_digest)));
    }
    sum.loss_sum += part.loss_sum;
    sum.tokens += part.tokens;
    sum.uncounted += part.uncounted;
    sum.pairs.add(part.pairs);
    trained += part.tokens > 0 ? 1 : 0;
    sum.gradient_norm += part.gradient_norm;
    sum.bytes_sent += part.bytes_sent;
    sum.bytes_received += part.bytes_received;
    sum.data_s += part.data_s;
    sum.compute_s += part.compute_s;
    sum.exchange_s += part.exchange_s;
    sum.update_s += part.update_s;
    sum.simulated_s += part.simulated_s;
    sum.simulated_compute_s += part.simulated_compute_s;
  }
  if (first.synchronised) last_digest_ = first.digest;
  const auto workers = static_cast<double>(parts.size());
  events::StepEvent event;
  event.step = step;
  const int64_t counted = sum.pairs.pairs > 0 ? sum.pairs.pairs : sum.tokens - sum.uncounted;
  event.loss = sum.loss_sum / static_cast<double>(counted);
  if (sum.pairs.pairs > 0) event.rewards = sum.pairs.means();
  event.learning_rate = first.learning_rate;
  event.gradient_norm = sum.gradient_norm / trained;
  event.tokens = sum.tokens;
  event.bytes_sent = static_cast<double>(sum.bytes_sent) / workers;
  event.bytes_received = static_cast<double>(sum.bytes_received) / workers;
  event.seconds = {{"data", sum.data_s / workers},
                   {"compute", sum.compute_s / workers},
                   {"exchange", sum.exchange_s / workers},
                   {"update", sum.update_s / workers}};
  if (sum.simulated_s > 0) {
    event.seconds.emplace_back(report::kSimulatedPhase, sum.simulated_s / workers);
    event.seconds.emplace_back(report::kSimulatedComputePhase, sum.simulated_compute_s / workers);
  }
  recorder_.step(std::move(event));
}

std::optional<double> Collector::add_evaluation(int64_t step, const std::string& name, int worker,
                                                const EvalPart& part) {
  const Lock lock(mutex_);
  const std::pair key(step, name);
  Parts<EvalPart>& parts = evaluations_[key];
  parts[worker] = part;
  if (std::ssize(parts) < part.members) return std::nullopt;
  EvalPart sum;
  for (const auto& [member, one] : parts) {
    sum.loss_sum += one.loss_sum;
    sum.tokens += one.tokens;
    sum.pairs.add(one.pairs);
    sum.classes.add(one.classes);
    sum.numbers.add(one.numbers);
  }
  const double value = part.score ? record_score(step, name, sum) : record_loss(step, name, sum);
  recorder_.restart_clock();
  evaluations_.erase(key);
  return value;
}

double Collector::record_loss(int64_t step, const std::string& name, const EvalPart& sum) {
  const double loss = sum.loss_sum / static_cast<double>(sum.tokens);
  if (!std::isfinite(loss)) {
    throw Error(
        fmt::format("step {}: the loss on {} is {}; lower optim.lr or raise schedule.warmup", step,
                    name, loss));
  }
  if (sum.pairs.pairs > 0) {
    const events::Rewards rewards = sum.pairs.means();
    for (const events::RewardField& field : events::kRewardFields) {
      recorder_.score(step, fmt::format("{}.{}", name, field.name), rewards.*field.value);
    }
  }
  const auto record = [&](const auto& metrics) REQUIRES(mutex_) {
    for (const auto& [metric, value] : metrics) {
      recorder_.score(step, fmt::format("{}.{}", name, metric), value);
    }
  };
  if (sum.classes.texts > 0) record(sum.classes.metrics());
  if (sum.numbers.texts > 0) record(sum.numbers.metrics());
  recorder_.evaluation(step, name, loss);
  return loss;
}

double Collector::record_score(int64_t step, const std::string& name, const EvalPart& sum) {
  const std::string metric = name.substr(name.rfind('.') + 1);
  const double value =
      eval::MetricSum{metric, sum.loss_sum, static_cast<double>(sum.tokens)}.value();
  recorder_.score(step, name, value);
  return value;
}

void Collector::show_evaluation(int64_t step, const std::string& name, double fraction) {
  const Lock lock(mutex_);
  recorder_.show_evaluation(step, name, fraction);
}

void Collector::sync() {
  const Lock lock(mutex_);
  recorder_.sync();
}

std::optional<uint64_t> Collector::last_digest() const {
  const Lock lock(mutex_);
  return last_digest_;
}

void Collector::checkpoint_written(int64_t step) {
  const Lock lock(mutex_);
  recorder_.checkpoint(step);
  recorder_.restart_clock();
}

}  // namespace thinwire::train
