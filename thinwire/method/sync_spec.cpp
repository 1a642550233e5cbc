#include "thinwire/method/sync_spec.h"

#include <string>

#include "thinwire/config/recipe.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"

namespace thinwire::method {
namespace {

AlgorithmSpec algorithm_of(const config::Recipe& recipe, const Method& method) {
  return {method.algorithm, recipe.section(std::string(method.name))};
}

// Whether several workers take each step of the optimizer, from the same gradients.
bool replicates_steps(const config::Recipe& recipe, RunKind kind) {
  if (find_method(recipe.sync.method).local_updates) return recipe.sync.clustered();
  return kind == RunKind::kHosted || recipe.train.workers > 1;
}

OptimizerOptions optim_of(const config::Recipe& recipe, RunKind kind) {
  OptimizerOptions options = optimizer_options(recipe);
  options.replicated = replicates_steps(recipe, kind);
  return options;
}

}  // namespace

SyncSpec sync_spec(const config::Recipe& recipe, RunKind kind) {
  const config::SyncSection& sync = recipe.sync;
  const Method& within = sync.clustered() ? find_method(name_of(sync.within)) : kAllReduce;
  return {.method = algorithm_of(recipe, find_method(sync.method)),
          .within = algorithm_of(recipe, within),
          .clusters = sync.clusters,
          .aggregate = sync.aggregation(),
          .steps = recipe.train.steps,
          .timeout_s = sync.timeout_s,
          .optim = optim_of(recipe, kind),
          .clip = recipe.optim.clip,
          .clip_by = recipe.optim.clip_by,
          .gradients = gradient_store(recipe),
          .hides_sums = hides_sums(recipe, kind),
          .privacy = recipe.privacy};
}

}  // namespace thinwire::method
