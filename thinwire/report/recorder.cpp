#include "thinwire/report/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "thinwire/base/units.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::report {
namespace {

constexpr double kPlainInterval = 10;  // seconds between lines about an evaluation

events::RunLog open_log(const fs::path& file, int64_t resume_step) {
  if (resume_step > 0) return {file, resume_step};
  return events::RunLog(file);
}

// "3.214 (last 12 steps)"
std::string loss_text(const LossMean& loss) {
  const std::string value = fmt::format("{:.3f}", without_nan_sign(loss.value()));
  return loss.steps() > 1 ? fmt::format("{} (last {} steps)", value, loss.steps()) : value;
}

}  // namespace

Recorder::Recorder(const config::Recipe& recipe, const fs::path& folder, int64_t resume_step,
                   RecorderOptions options)
    : folder_(folder),
      file_(folder / "events.jsonl"),
      rows_(options.rows.empty() ? "" : " " + options.rows),
      log_(open_log(file_, resume_step)),
      listener_(options.listener),
      print_(std::move(options.display.message)),
      progress_(recipe.run.name, recipe.train.steps,
                {.start = resume_step,
                 .plain_every = recipe.log.every,
                 .silent = !options.display.progress}),
      totals_(recipe),
      padded_(recipe.data.records != config::RecordKind::kText),
      flops_per_token_(method::train_flops_per_token(recipe)),
      since_(monotonic_seconds()) {
  events::RunHistory history;
  if (resume_step > 0) history = events::read_run_log(file_);
  if (recipe.log.tensorboard) {
    curves_ = std::make_unique<Curves>(folder / "tensorboard", resume_step, history);
  }
  read_back(history, resume_step);
}

void Recorder::read_back(const events::RunHistory& history, int64_t resume_step) {
  const auto take = [this](const auto& event) {
    totals_.add(event);
    if (listener_ != nullptr) listener_->on_event(event);
  };
  for (const events::StepEvent& event : history.steps) take(event);
  for (const events::EvalEvent& event : history.evals) take(event);
  totals_.set_completed(resume_step);
  const std::string file = file_.string();
  if (log_.repaired()) {
    message(resume_step, file + " ended in the middle of a line, as a power cut leaves it; that " +
                             "line is dropped");
  }
  // A member does not record the steps that were taken without it.
  if (totals_.lost() > 0 && rows_.empty()) {
    message(resume_step, fmt::format("{} lacks {} of the {} steps done; the summary assumes the "
                                     "mean of the others for their time and bytes",
                                     file, totals_.lost(), resume_step));
  }
}

void Recorder::step(events::StepEvent event) {
  const double now = monotonic_seconds();
  const double elapsed = std::max(now - std::exchange(since_, now), 1e-9);
  event.tokens_per_second = static_cast<double>(event.tokens) / elapsed;
  event.model_flops_per_second = event.tokens_per_second * flops_per_token_;
  totals_.add(event);
  write(event);
  if (curves_) curves_->add(event, totals_.loss().value());
  show(event);
}

void Recorder::show(const events::StepEvent& event) {
  if (!progress_.due(event.step)) return;
  // Means, because methods that exchange rarely send nothing in most steps.
  std::vector<events::ProgressField> fields = {
      {"loss", loss_text(totals_.loss())},
      {padded_ ? "tok/s with padding" : "tok/s", format_count(totals_.tokens_per_second())},
      {"sent", format_bytes(totals_.bytes_sent_per_step()) + " a step"},
      {"received", format_bytes(totals_.bytes_received_per_step()) + " a step"},
      {"lr", fmt::format("{:.2e}", event.learning_rate)}};
  if (event.rewards) {
    fields.push_back({"accuracy", fmt::format("{:.2f}", event.rewards->accuracy)});
    fields.push_back({"margin", fmt::format("{:.3f}", event.rewards->margin)});
  }
  if (totals_.simulated_seconds() > 0) {
    fields.push_back({"over links", format_seconds(totals_.simulated_seconds())});
  }
  progress_.update(event.step, std::move(fields));
}

void Recorder::evaluation(int64_t step, const std::string& name, double loss) {
  record({step, name, loss});
  print_(fmt::format("step {}: {} loss {:.4f}{}", step, name, without_nan_sign(loss), rows_));
}

void Recorder::score(int64_t step, const std::string& name, double value) {
  record({step, name, value, 0, true});
  print_(fmt::format("step {}: {} {:.4f}{}", step, name, value, rows_));
}

void Recorder::record(const events::EvalEvent& event) {
  totals_.add(event);
  write(event);
  if (curves_) curves_->add(event);
}

void Recorder::show_evaluation(int64_t step, const std::string& name, double fraction) {
  const std::string text = fmt::format("evaluating {}, {:.0f} %", name, 100 * fraction);
  if (progress_.live()) return progress_.update(step, {{"", text}});
  const double now = monotonic_seconds();
  if (fraction > 0 && now - evaluation_shown_ < kPlainInterval) return;
  if (fraction > 0) print_(fmt::format("step {}: {}", step, text));
  evaluation_shown_ = now;
}

void Recorder::message(int64_t step, const std::string& text) {
  write(events::MessageEvent{step, text});
  print_(text);
}

void Recorder::checkpoint(int64_t step) {
  if (listener_ == nullptr) return;
  const auto name = checkpoint::checkpoint_name(static_cast<uint64_t>(step));
  listener_->on_checkpoint({step, (folder_ / "checkpoints" / name).string()});
}

void Recorder::sync() {
  log_.sync();
  if (curves_) curves_->sync();
}

}  // namespace thinwire::report
