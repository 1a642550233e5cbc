#include "thinwire/train/collector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"

namespace thinwire::train {

Collector::Collector(int workers, report::Recorder& recorder)
    : workers_(static_cast<size_t>(workers)), recorder_(recorder) {}

void Collector::add_step(int64_t step, int worker, const StepPart& part) {
  const std::lock_guard lock(mutex_);
  Parts<StepPart>& parts = steps_[step];
  parts.of_worker.resize(workers_);
  parts.of_worker[static_cast<size_t>(worker)] = part;
  if (++parts.arrived < workers_) return;
  complete_step(step, parts.of_worker);
  steps_.erase(step);
}

void Collector::note_shares(int64_t step, const std::vector<StepPart>& parts) {
  std::vector<int64_t> tokens;
  for (const StepPart& part : parts) tokens.push_back(part.tokens);
  if (!tokens_of_.empty() && tokens != tokens_of_) {
    recorder_.message(
        step, fmt::format("from step {} on workers take {} tokens", step, fmt::join(tokens, ", ")));
  }
  tokens_of_ = std::move(tokens);
}

void Collector::complete_step(int64_t step, const std::vector<StepPart>& parts) {
  note_shares(step, parts);
  StepPart sum;
  int trained = 0;
  for (size_t worker = 0; worker < workers_; ++worker) {
    const StepPart& part = parts[worker];
    if (part.synchronised && part.digest != parts[0].digest) {
      throw Error(
          fmt::format("step {}: the replicas disagree: worker 0 has digest {}, worker {} has {}",
                      step, to_hex(parts[0].digest), worker, to_hex(part.digest)));
    }
    if (part.synchronised && part.state_digest != parts[0].state_digest) {
      throw Error(
          fmt::format("step {}: the replicas disagree: the shared state of worker 0 has digest {}, "
                      "that of worker {} has {}",
                      step, to_hex(parts[0].state_digest), worker, to_hex(part.state_digest)));
    }
    sum.loss_sum += part.loss_sum;
    sum.tokens += part.tokens;
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
  if (parts[0].synchronised) last_digest_ = parts[0].digest;
  const auto workers = static_cast<double>(workers_);
  events::StepEvent event;
  event.step = step;
  event.loss = sum.loss_sum / static_cast<double>(sum.tokens);
  event.learning_rate = parts[0].learning_rate;
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
  const std::lock_guard lock(mutex_);
  const std::pair key(step, name);
  Parts<EvalPart>& parts = evaluations_[key];
  parts.of_worker.resize(workers_);
  parts.of_worker[static_cast<size_t>(worker)] = part;
  if (++parts.arrived < workers_) return std::nullopt;
  EvalPart sum;
  for (const EvalPart& one : parts.of_worker) {
    sum.loss_sum += one.loss_sum;
    sum.tokens += one.tokens;
  }
  const double loss = sum.loss_sum / static_cast<double>(sum.tokens);
  if (!std::isfinite(loss)) {
    throw Error(
        fmt::format("step {}: the loss on {} is {}; lower optim.lr or raise schedule.warmup", step,
                    name, loss));
  }
  recorder_.evaluation(step, name, loss);
  recorder_.restart_clock();
  evaluations_.erase(key);
  return loss;
}

void Collector::show_evaluation(int64_t step, const std::string& name, double fraction) {
  const std::lock_guard lock(mutex_);
  recorder_.show_evaluation(step, name, fraction);
}

void Collector::sync() {
  const std::lock_guard lock(mutex_);
  recorder_.sync();
}

void Collector::restart_clock() {
  const std::lock_guard lock(mutex_);
  recorder_.restart_clock();
}

}  // namespace thinwire::train
