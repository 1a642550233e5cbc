// Refuses recipes that a run of many hosts does not support.
#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/member/member.h"
#include "thinwire/method/optimizers/galore.h"
#include "thinwire/method/registry.h"

namespace thinwire::member {
namespace {

void refuse(std::string_view field, std::string_view right, std::string_view value,
            std::string_view why) {
  throw UsageError(
      fmt::format("{} must be {} for members on many hosts, got {}: {}", field, right, value, why));
}

}  // namespace

void check_hosted(const config::Recipe& recipe) {
  if (recipe.sync.clustered()) {
    refuse("[sync] within", "\"none\"", fmt::format("\"{}\"", recipe.sync.within),
           "members cannot form clusters yet");
  }
  const method::Method& method = method::find_method(recipe.sync.method);
  if (recipe.train.update == config::UpdateTime::kLayer && !method.local_updates) {
    refuse(
        "[train] update", "\"step\"", "\"layer\"",
        "each layer's sum is needed before the next layer's is sent, but a round closes with all "
        "of them at once");
  }
  if (recipe.optim.gradients == config::GradientCoordinates::kProjected && !method.local_updates &&
      !method::draws_bases(recipe)) {
    refuse("[optim] gradients", "\"whole\"", "\"projected\"",
           "the sums that renew a basis are needed one after another, but a round closes with all "
           "of its sums at once; or galore with galore.basis = \"seeded\"");
  }
  if (recipe.train.weights != WeightFormat::kF32) {
    refuse("[train] weights", "\"fp32\"", fmt::format("\"{}\"", name_of(recipe.train.weights)),
           "snapshots hold fp32");
  }
  if (recipe.optim.state != StateFormat::kF32) {
    refuse("[optim] state", "\"fp32\"", fmt::format("\"{}\"", name_of(recipe.optim.state)),
           "snapshots hold fp32");
  }
  if (recipe.optim.bases != StateFormat::kF32) {
    refuse("[optim] bases", "\"fp32\"", fmt::format("\"{}\"", name_of(recipe.optim.bases)),
           "snapshots hold fp32");
  }
  if (recipe.adapter.kind != "none") {
    refuse("[adapter] kind", "\"none\"", fmt::format("\"{}\"", recipe.adapter.kind),
           "members receive trained tensors only, not frozen ones");
  }
  if (!recipe.sync.absent.empty()) {
    refuse("[sync] absent", "empty", fmt::format("{} entries", recipe.sync.absent.size()),
           "members join and leave by themselves");
  }
  if (!recipe.eval.tasks.empty()) {
    refuse("[eval] tasks", "empty", fmt::format("{} tasks", recipe.eval.tasks.size()),
           "members evaluate only their own rows, and score no tasks");
  }
  if (recipe.eval.patience > 0) {
    refuse("[eval] patience", "0", fmt::to_string(recipe.eval.patience),
           "members evaluate only their own rows, so none knows the overall loss");
  }
  if (recipe.checkpoint.best) {
    refuse("[checkpoint] best", "false", "true",
           "members evaluate only their own rows, so none knows the overall loss");
  }
  if (recipe.links.step_s > 0) {
    refuse("[links] step_s", "0", fmt::format("{:g}", recipe.links.step_s),
           "simulated links need all workers in one process");
  }
}

}  // namespace thinwire::member
