#include "thinwire/training.h"

#include <optional>
#include <utility>
#include <vector>

#include "thinwire/events/run_log.h"
#include "thinwire/face_spec/recipe_parts.h"
#include "thinwire/launch/train.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/own_learner.h"

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

std::vector<OwnTensor> tensors_in(tensor::Arena& arena) {
  std::vector<OwnTensor> tensors;
  for (size_t i = 0; i < arena.layout().size(); ++i) {
    const TensorSpec& spec = arena.layout().specs()[i];
    tensors.push_back({spec.name, spec.shape, arena.tensor(i)});
  }
  return tensors;
}

train::OwnModel inner_model(const OwnModel& model) {
  train::OwnModel inner;
  inner.worker = [&model](tensor::Arena& weights, tensor::Arena& gradients) {
    return model.worker(tensors_in(weights), tensors_in(gradients));
  };
  if (model.initial) {
    inner.initial = [&model](tensor::Arena& weights) { model.initial(tensors_in(weights)); };
  }
  if (model.memory) {
    inner.memory = [&model](const tensor::Layout& layout) { return model.memory(layout.total()); };
  }
  return inner;
}

}  // namespace

TrainingResult train_model(const Recipe& recipe, const TrainingOptions& options) {
  if (options.own_model != nullptr && !options.own_model->worker) {
    throw UsageError("OwnModel::worker must be set");
  }
  Callbacks callbacks(options);
  launch::TrainOptions run;
  run.restart = options.restart;
  run.stop = options.stop;
  run.listen = [&](const config::Recipe&, int64_t) { return &callbacks; };
  run.display.progress = false;
  run.display.message = [&](std::string_view line) {
    if (options.on_message) options.on_message(line);
  };
  std::optional<train::OwnModel> own;
  if (options.own_model != nullptr) run.own_model = &own.emplace(inner_model(*options.own_model));
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
