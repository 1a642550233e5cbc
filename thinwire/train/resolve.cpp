#include "thinwire/train/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/model/model.h"

namespace thinwire::train {

void resolve(config::Recipe& recipe, const data::Vocabulary& vocabulary) {
  const int64_t tokens = vocabulary.size();
  if (recipe.model.vocab == 0) recipe.model.vocab = tokens;
  if (recipe.model.vocab < tokens && !recipe.train.init.empty()) {
    throw UsageError(fmt::format(
        "[train] init: the model in {} has {} tokens, fewer than the vocabulary in {}, which has "
        "{}; prepare the text with the model's own vocabulary (data.vocabulary_model)",
        recipe.train.init, recipe.model.vocab, recipe.data.dir, tokens));
  }
  if (recipe.model.vocab < tokens) {
    throw UsageError(fmt::format("[model] vocab must be >= {} (the vocabulary in {}), got {}",
                                 tokens, recipe.data.dir, recipe.model.vocab));
  }
  resolve_machine(recipe);
  config::check_recipe(recipe);
}

void resolve_machine(config::Recipe& recipe) {
  using config::DeviceChoice;
  config::TrainSection& train = recipe.train;
  const model::Placement placement = model::placement_of(train.device);
  if (train.device == DeviceChoice::kAuto) {
    train.device = placement ? DeviceChoice::kCuda : DeviceChoice::kCpu;
  }
  train.precision = model::precision_on(placement, train.precision);
  if (const int cores = cores_here().affinity; recipe.train.threads > cores) {
    throw UsageError(fmt::format(
        "[train] threads must be <= {} (the cores on which this process may run), got {}", cores,
        recipe.train.threads));
  }
}

void check_watch(const config::Recipe& recipe, std::span<const std::string> names) {
  if (recipe.eval.patience == 0 && !recipe.checkpoint.best) return;
  if (std::ranges::find(names, recipe.eval.watch) != names.end()) return;
  throw UsageError(fmt::format("[eval] watch = '{}' is not a validation set of {}, which has {}",
                               recipe.eval.watch, recipe.data.dir,
                               names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

std::string why_early(const config::Recipe& recipe, const checkpoint::BestLoss& best) {
  return fmt::format(
      "ended early: in {} evaluations the loss on {} has not fallen below the {:.4f} reached after "
      "step {} (eval.patience)",
      best.since, recipe.eval.watch, best.loss, best.step);
}

std::string thread_warning(const config::Recipe& recipe, const Cores& cores) {
  if (recipe.train.threads <= cores.usable()) return "";
  return fmt::format(
      "train.threads = {} is more than this process may use all the time: {}; threads that wait "
      "for "
      "each other lose more time than they save, so {} may be faster",
      recipe.train.threads, cores.describe(), cores.usable());
}

}  // namespace thinwire::train
