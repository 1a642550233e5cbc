#include "thinwire/train/own_learner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

class OwnLearner final : public Learner {
 public:
  OwnLearner(const OwnModel& model, Replica& replica)
      : replica_(replica), loss_(model.worker(replica.params(), replica.gradients())) {}

  void read_from(int64_t step, Order order) override {
    step_ = static_cast<uint64_t>(step);
    order_ = std::move(order);
  }
  uint64_t read() override {
    rows_ = order_(step_++);
    return rows_.size();
  }

  void gradients(const Round& round, const StepGradients::EndGroup& completed,
                 StepPart& part) override {
    replica_.gradients().clear();
    const double mean = loss_(rows_);
    part.tokens = std::ssize(rows_);
    part.loss_sum = mean * static_cast<double>(part.tokens);
    replica_.gradients_ready(round, completed);
  }

 private:
  Replica& replica_;
  const OwnLoss loss_;
  Order order_;
  uint64_t step_ = 0;
  std::vector<uint64_t> rows_;
};

}  // namespace

MakeLearner own_learner(const OwnModel& model) {
  return [&model](Replica& replica) { return std::make_unique<OwnLearner>(model, replica); };
}

void check_own_model(const config::Recipe& recipe, const OwnModel* model) {
  const bool external = method::is_external(recipe);
  if (external && model == nullptr) {
    throw UsageError(
        "[model] architecture = \"external\": the run's model is external, and only the program "
        "which has it can train it or join its run (docs/embedding.md), not thinwire's own "
        "commands");
  }
  if (!external && model != nullptr) {
    throw UsageError(
        fmt::format("[model] architecture must be \"external\" for a model of the program's own, "
                    "got \"{}\"",
                    recipe.model.architecture));
  }
  if (model == nullptr || model->tensors.empty()) return;
  const config::StringList tensors =
      method::ModelSpec(recipe).options<method::ExternalOptions>().tensors;
  if (!std::ranges::equal(tensors, model->tensors)) {
    throw UsageError(fmt::format(
        "[external] tensors must be \"{}\", which the program's model is for, got \"{}\"",
        fmt::join(model->tensors, ", "), fmt::join(tensors, ", ")));
  }
}

}  // namespace thinwire::train
