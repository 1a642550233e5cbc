#include "thinwire/train/resolve.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
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
  const model::Placement placement = model::parse_device(recipe.train.device);
  if (recipe.train.device == "auto") recipe.train.device = placement ? "cuda" : "cpu";
  const bool bf16 =
      model::parse_precision(recipe.train.precision, placement) == model::Precision::kBf16;
  recipe.train.precision = bf16 ? "bf16" : "fp32";
  if (recipe.train.threads > available_cores()) {
    throw UsageError(
        fmt::format("[train] threads must be <= {} (the cores of this machine), got {}",
                    available_cores(), recipe.train.threads));
  }
  config::check_recipe(recipe);
}

}  // namespace thinwire::train
