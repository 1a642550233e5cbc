#include "thinwire/face_run/run_parts.h"

#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire {

events::Display Callbacks::display() {
  const auto tell = [this](std::string_view line) { on_message(line); };
  return {.message = tell, .needed = tell};
}

void Callbacks::on_event(const events::StepEvent& event) {
  const Lock lock(calling_);
  if (callbacks_.on_step) callbacks_.on_step(event);
}

void Callbacks::on_event(const events::EvalEvent& event) {
  const Lock lock(calling_);
  if (callbacks_.on_evaluation) callbacks_.on_evaluation(event);
}

void Callbacks::on_checkpoint(const events::CheckpointEvent& event) {
  const Lock lock(calling_);
  if (callbacks_.on_checkpoint) callbacks_.on_checkpoint(event);
}

void Callbacks::on_message(std::string_view line) {
  const Lock lock(calling_);
  if (callbacks_.on_message) callbacks_.on_message(line);
}

namespace {

std::vector<OwnTensor> tensors_in(tensor::Arena& arena) {
  std::vector<OwnTensor> tensors;
  for (size_t i = 0; i < arena.layout().size(); ++i) {
    const TensorSpec& spec = arena.layout().specs()[i];
    tensors.push_back({spec.name, spec.shape, arena.tensor(i)});
  }
  return tensors;
}

}  // namespace

train::OwnModel inner_model(const OwnModel& model) {
  if (!model.worker) throw UsageError("OwnModel::worker must be set");
  train::OwnModel inner;
  inner.tensors = model.tensors;
  inner.worker = [&model](const train::OwnWorker& worker) -> train::OwnLoss {
    return [loss = model.worker(tensors_in(worker.weights), tensors_in(worker.gradients))](
               const train::OwnStep& step) { return train::OwnAnswer{loss(step.rows)}; };
  };
  if (model.initial) {
    inner.initial = [&model](tensor::Arena& weights) { model.initial(tensors_in(weights)); };
  }
  if (model.memory) {
    inner.memory = [&model](const tensor::Layout& layout) { return model.memory(layout.total()); };
  }
  if (model.gradient_memory) {
    inner.gradient_memory = [&model](const tensor::Layout& layout) {
      return model.gradient_memory(layout.total());
    };
  }
  return inner;
}

}  // namespace thinwire
