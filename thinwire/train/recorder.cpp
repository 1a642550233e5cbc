#include "thinwire/train/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "thinwire/base/units.h"
#include "thinwire/config/model_shapes.h"

namespace thinwire::train {
namespace {

constexpr double kSmoothing = 0.05;

events::RunLog open_log(const fs::path& folder, int64_t resume_step) {
  const fs::path file = folder / "events.jsonl";
  if (resume_step > 0) return {file, resume_step};
  return events::RunLog(file);
}

std::unique_ptr<events::TensorBoardWriter> open_tensorboard(const config::Recipe& recipe,
                                                            const fs::path& folder,
                                                            int64_t resume_step) {
  if (!recipe.log.tensorboard) return nullptr;
  const fs::path files = folder / "tensorboard";
  if (resume_step > 0) return std::make_unique<events::TensorBoardWriter>(files, resume_step);
  return std::make_unique<events::TensorBoardWriter>(files);
}

}  // namespace

Recorder::Recorder(const config::Recipe& recipe, const fs::path& folder, int64_t resume_step)
    : recipe_(recipe),
      log_(open_log(folder, resume_step)),
      tensorboard_(open_tensorboard(recipe, folder, resume_step)),
      progress_(recipe.run.name, recipe.train.steps,
                {.start = resume_step, .plain_every = recipe.log.every}),
      flops_per_token_(config::train_flops_per_token(recipe.model, recipe.train.sequence)),
      since_(monotonic_seconds()) {
  if (resume_step == 0) return;
  const events::RunHistory history = events::read_run_log(folder / "events.jsonl");
  for (const events::StepEvent& event : history.steps) add(event);
  for (const events::EvalEvent& event : history.evals) val_loss_[event.name] = event.loss;
}

void Recorder::add(const events::StepEvent& event) {
  smooth_loss_ = steps_ == 0 ? event.loss : smooth_loss_ + kSmoothing * (event.loss - smooth_loss_);
  ++steps_;
  tokens_ += event.tokens;
  seconds_ += static_cast<double>(event.tokens) / event.tokens_per_second;
  bytes_sent_ += event.bytes_sent;
  bytes_received_ += event.bytes_received;
  for (const auto& [phase, seconds] : event.seconds) {
    if (phase == kSimulatedPhase) simulated_seconds_ += seconds;
    if (phase == kSimulatedComputePhase) simulated_compute_seconds_ += seconds;
  }
}

void Recorder::step(events::StepEvent event) {
  const double now = monotonic_seconds();
  const double elapsed = std::max(now - std::exchange(since_, now), 1e-9);
  event.tokens_per_second = static_cast<double>(event.tokens) / elapsed;
  event.model_flops_per_second = event.tokens_per_second * flops_per_token_;
  add(event);
  log_.write(event);
  if (tensorboard_) {
    tensorboard_->scalar("train/loss", event.step, event.loss);
    tensorboard_->scalar("train/learning_rate", event.step, event.learning_rate);
    tensorboard_->scalar("train/gradient_norm", event.step, event.gradient_norm);
    tensorboard_->scalar("speed/tokens_per_second", event.step, event.tokens_per_second);
    tensorboard_->scalar("wire/bytes_sent", event.step, event.bytes_sent);
    tensorboard_->scalar("wire/bytes_received", event.step, event.bytes_received);
  }
  show(event);
}

void Recorder::show(const events::StepEvent& event) {
  if (!progress_.due(event.step)) return;
  // Means, for most steps of methods that exchange rarely send nothing.
  const auto steps = static_cast<double>(steps_);
  std::vector<events::ProgressField> fields = {
      {"loss", fmt::format("{:.3f}", smooth_loss_)},
      {"tok/s", format_count(static_cast<double>(tokens_) / seconds_)},
      {"sent", format_bytes(bytes_sent_ / steps)},
      {"received", format_bytes(bytes_received_ / steps)},
      {"lr", fmt::format("{:.2e}", event.learning_rate)}};
  if (simulated_seconds_ > 0) {
    fields.push_back({"over links", format_seconds(simulated_seconds_)});
  }
  progress_.update(event.step, std::move(fields));
}

void Recorder::evaluation(int64_t step, const std::string& name, double loss) {
  val_loss_[name] = loss;
  log_.write(events::EvalEvent{step, name, loss});
  if (tensorboard_) tensorboard_->scalar("loss/" + name, step, loss);
  events::print_message(fmt::format("step {}: {} loss {:.4f}", step, name, loss));
}

void Recorder::message(int64_t step, const std::string& text) {
  log_.write(events::MessageEvent{step, text});
  events::print_message(text);
}

events::Summary Recorder::totals() const {
  events::Summary summary;
  summary.name = recipe_.run.name;
  summary.method = recipe_.sync.method;
  summary.workers = recipe_.train.workers;
  summary.steps = steps_;
  summary.tokens = tokens_;
  summary.train_loss = smooth_loss_;
  summary.val_loss = val_loss_;
  summary.seconds = seconds_;
  summary.seconds_over_links = simulated_seconds_;
  if (simulated_seconds_ > 0) {
    summary.compute_utilization = simulated_compute_seconds_ / simulated_seconds_;
  }
  if (steps_ == 0) return summary;
  summary.bytes_sent_per_worker_step = bytes_sent_ / static_cast<double>(steps_);
  summary.bytes_received_per_worker_step = bytes_received_ / static_cast<double>(steps_);
  summary.tokens_per_second = static_cast<double>(tokens_) / seconds_;
  return summary;
}

}  // namespace thinwire::train
