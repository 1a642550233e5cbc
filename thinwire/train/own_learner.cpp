#include "thinwire/train/own_learner.h"

#include <fmt/format.h>

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
      : replica_(replica),
        loss_(model.worker({replica.id(), replica.params(), replica.gradients()})) {}

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
    const double mean = loss_({static_cast<int64_t>(round.step), round.learning_rate, rows_});
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

// Their roles are the recipe's business.
bool are_alike(const std::string& line, const std::string& other) {
  const TensorSpec one = method::external_tensor(line), two = method::external_tensor(other);
  return one.name == two.name && one.shape == two.shape;
}

// Names the first tensor that differs.
void check_tensors(const config::StringList& recipe, const std::vector<std::string>& own) {
  const auto [here, there] = std::ranges::mismatch(recipe, own, are_alike);
  if (here == recipe.end() && there == own.end()) return;
  const auto shown = [](auto at, auto end) {
    return at == end ? std::string("none") : fmt::format("\"{}\"", *at);
  };
  throw UsageError(fmt::format(
      "[external] tensors: the program's model must have the tensors of the run, but of tensor {} "
      "the run says {} and the model {}",
      here - recipe.begin() + 1, shown(here, recipe.end()), shown(there, own.end())));
}

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
  check_tensors(method::ModelSpec(recipe).options<method::ExternalOptions>().tensors,
                model->tensors);
}

}  // namespace thinwire::train
