#include "thinwire/training.h"

#include <utility>

#include "thinwire/events/run_log.h"
#include "thinwire/face_spec/recipe_parts.h"
#include "thinwire/launch/train.h"

namespace thinwire {
namespace {

class Callbacks final : public events::Listener {
 public:
  explicit Callbacks(const TrainingOptions& options) : options_(options) {}

  void on_event(const events::StepEvent& event) override {
    if (options_.on_step) options_.on_step(event);
  }
  void on_event(const events::EvalEvent& event) override {
    if (options_.on_evaluation) options_.on_evaluation(event);
  }
  void on_event(const events::MessageEvent&) override {}  // the display gets it as well
  void on_event(const events::WorkerStep&) override {}
  void on_checkpoint(const events::CheckpointEvent& event) override {
    if (options_.on_checkpoint) options_.on_checkpoint(event);
  }

 private:
  const TrainingOptions& options_;
};

}  // namespace

TrainingResult train_model(const Recipe& recipe, const TrainingOptions& options) {
  Callbacks callbacks(options);
  launch::TrainOptions run;
  run.restart = options.restart;
  run.stop = options.stop;
  run.listen = [&](const config::Recipe&, int64_t) { return &callbacks; };
  run.display.progress = false;
  run.display.message = [&](std::string_view line) {
    if (options.on_message) options.on_message(line);
  };
  launch::TrainResult trained = launch::train(recipe.parts().recipe, run);
  TrainingResult result;
  result.steps = trained.step;
  result.finished = trained.outcome != launch::Outcome::kStopped;
  result.train_loss = trained.summary.train_loss;
  result.losses = std::move(trained.summary.val_loss);
  result.bytes_sent_per_step = trained.summary.bytes_sent_per_worker_step;
  result.digest = std::move(trained.summary.digest);
  return result;
}

}  // namespace thinwire
