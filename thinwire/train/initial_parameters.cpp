#include "thinwire/train/initial_parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/model/llama.h"
#include "thinwire/train/load.h"

namespace thinwire::train {

void set_initial_parameters(const config::Recipe& recipe, tensor::Arena& params) {
  if (recipe.train.init.empty()) {
    model::init_llama(params, recipe.model,
                      derive_seed(static_cast<uint64_t>(recipe.run.seed), "init"));
    return;
  }
  const LoadedModel loaded = load_model(recipe.train.init);
  const auto given = loaded.layout->specs();
  const auto wanted = params.layout().specs();
  for (size_t at = 0; at < wanted.size(); ++at) {
    if (given.size() == wanted.size() && given[at].name == wanted[at].name &&
        given[at].shape == wanted[at].shape) {
      continue;
    }
    throw UsageError(fmt::format(
        "[train] init: the model in {} does not have the shapes of [model]", recipe.train.init));
  }
  std::copy(loaded.params->all().begin(), loaded.params->all().end(), params.all().begin());
}

void InitialParameters::copy_to(tensor::Arena& params) {
  const std::span<const float> values = values_->all();
  std::copy(values.begin(), values.end(), params.all().begin());
  if (left_.fetch_sub(1) == 1) values_.reset();
}

}  // namespace thinwire::train
