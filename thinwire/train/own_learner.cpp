#include "thinwire/train/own_learner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/method.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::train {
namespace {

class OwnLearner final : public Learner {
 public:
  OwnLearner(const OwnModel& model, const data::Rows* rows, Replica& replica)
      : replica_(replica),
        recipe_(replica.parts().recipe),
        texts_(rows),
        clears_(!model.sets_gradients && !method::takes_own_steps(recipe_)),
        loss_(model.worker({replica.id(), recipe_, replica.params(), replica.gradients()})) {}

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
    if (clears_) replica_.gradients().clear();
    const bool begins = round.step > 0 && round.own(replica_.id()).since == round.step;
    const std::vector<int32_t> tokens =
        texts_ == nullptr ? std::vector<int32_t>() : texts_->read(rows_).tokens;
    const OwnAnswer answer = loss_({static_cast<int64_t>(round.step), round.learning_rate, rows_,
                                    tokens, recipe_.train.sequence, begins});
    part.tokens = std::ssize(rows_) * recipe_.train.sequence;  // 1 of an external model
    if (answer.loss) {
      part.loss_sum = *answer.loss * static_cast<double>(part.tokens);
    } else {
      part.uncounted = part.tokens;
    }
    part.gradient_norm = answer.gradient_norm;
    if (answer.learning_rate) take_rate(*answer.learning_rate, round, part);
    replica_.gradients_ready(round, completed);
  }

 private:
  void take_rate(float rate, const Round& round, StepPart& part) const {
    const bool is_free = method::takes_own_steps(recipe_) || rate == round.learning_rate;
    if (!is_free) check_rates(rate, round);
    part.learning_rate = rate;
  }

  // Replicas must agree on learning rates, and what is in flight or spread over several steps was
  // made with the recipe's.
  void check_rates(float rate, const Round& round) const {
    const auto refuse = [&](std::string_view needs) {
      throw UsageError(
          fmt::format("step {}: the program's own learning rate {} needs {}; leave it to optim.lr "
                      "and [schedule] "
                      "of the recipe, which say {}",
                      round.step + 1, rate, needs, round.learning_rate));
    };
    if (replica_.parts().kind != method::RunKind::kJob || recipe_.train.workers > 1) {
      refuse("a run of one worker on this machine alone");
    }
    if (recipe_.sync.method != method::kDistro.name) return;
    const auto& distro = recipe_.section<method::DistroOptions>("distro");
    if (distro.overlap > 0) refuse("distro.overlap = 0");
    if (distro.local_steps > 1) refuse("distro.local_steps = 1");
  }

  Replica& replica_;
  const config::Recipe& recipe_;
  const data::Rows* const texts_;  // null: there are none
  const bool clears_;              // gradients, before a step
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

// The same for a language model, whatever the order of the program's.
void check_layout(const tensor::Layout& layout, const std::vector<std::string>& own) {
  std::map<std::string, Shape> shapes;
  for (const std::string& line : own) {
    const TensorSpec tensor = method::external_tensor(line);
    shapes[tensor.name] = tensor.shape;
  }
  const auto shown = [](const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); };
  const auto refuse = [](std::string_view name, std::string_view run, std::string_view model) {
    throw UsageError(fmt::format(
        "the program's model must have the tensors of the run's, but {} is {} in the run and {} in "
        "the model",
        name, run, model));
  };
  for (const TensorSpec& tensor : layout.specs()) {
    const auto found = shapes.find(tensor.name);
    if (found == shapes.end()) refuse(tensor.name, shown(tensor.shape), "missing");
    if (found->second != tensor.shape)
      refuse(tensor.name, shown(tensor.shape), shown(found->second));
    shapes.erase(found);
  }
  if (!shapes.empty()) refuse(shapes.begin()->first, "missing", shown(shapes.begin()->second));
}

// What a program's language model cannot do.
struct Limit {
  std::string_view field;  // "table.field"
  std::string_view right;  // "must be …"
  bool (*exceeds)(const config::Recipe& recipe);
};
constexpr Limit kLimits[] = {
    {"data.records", "\"text\"",
     [](const config::Recipe& recipe) { return recipe.data.records != config::RecordKind::kText; }},
    {"train.separate_documents", "false",
     [](const config::Recipe& recipe) { return recipe.train.separate_documents; }},
    {"adapter.kind", "\"none\"",
     [](const config::Recipe& recipe) { return method::is_adapted(recipe.adapter); }},
    {"train.weights", "\"fp32\"",
     [](const config::Recipe& recipe) { return recipe.train.weights != WeightFormat::kF32; }},
    {"train.offload", "false", [](const config::Recipe& recipe) { return recipe.train.offload; }},
    {"optim.gradients", "\"whole\"",
     [](const config::Recipe& recipe) {
       return recipe.optim.gradients != config::GradientCoordinates::kWhole;
     }},
    {"eval.tasks", "empty",
     [](const config::Recipe& recipe) { return !recipe.eval.tasks.empty(); }},
    {"eval.patience", "0", [](const config::Recipe& recipe) { return recipe.eval.patience > 0; }},
    {"checkpoint.best", "false",
     [](const config::Recipe& recipe) { return recipe.checkpoint.best; }},
};

void check_limits(const config::Recipe& recipe) {
  for (const Limit& limit : kLimits) {
    if (!limit.exceeds(recipe)) continue;
    const size_t dot = limit.field.find('.');
    throw UsageError(fmt::format("[{}] {} must be {} for a model of the program's own, got {}",
                                 limit.field.substr(0, dot), limit.field.substr(dot + 1),
                                 limit.right, config::printed_value(recipe, limit.field)));
  }
}

}  // namespace

MakeLearner own_learner(const OwnModel& model, const data::Rows* rows) {
  return [&model, rows](Replica& replica) {
    if (rows != nullptr) check_layout(replica.params().layout(), model.tensors);
    return std::make_unique<OwnLearner>(model, rows, replica);
  };
}

void check_own_model(const config::Recipe& recipe, const OwnModel* model) {
  const bool external = method::is_external(recipe);
  if (external && model == nullptr) {
    throw UsageError(
        "[model] architecture = \"external\": the run's model is external, and only the program "
        "which has it can train it or join its run (docs/embedding.md), not thinwire's own "
        "commands");
  }
  if (!external && model != nullptr && !model->takes_tokens) {
    throw UsageError(
        fmt::format("[model] architecture must be \"external\" for a model of the program's own, "
                    "got \"{}\"",
                    recipe.model.architecture));
  }
  if (model == nullptr) return;
  if (!external) return check_limits(recipe);
  if (model->tensors.empty()) return;
  check_tensors(method::ModelSpec(recipe).options<method::ExternalOptions>().tensors,
                model->tensors);
}

}  // namespace thinwire::train
