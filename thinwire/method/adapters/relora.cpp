#include "thinwire/method/adapters/relora.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/method/adapters/adapter.h"

namespace thinwire::method {
namespace {

const ReloraOptions& relora(const config::Recipe& recipe) {
  return recipe.section<ReloraOptions>("relora");
}

}  // namespace

void ReloraOptions::describe(config::Fields& fields) {
  fields.integer(
      "merge_every", merge_every, "steps", 1, 1'000'000'000,
      "Steps between merges, which add the factors to their matrices and start new ones.");
  fields.number("reset", reset, "", 0, 1,
                "Share of the optimizer's state of each factor that a merge sets to zero: the "
                "values smallest in magnitude.");
  fields.integer("rewarm", rewarm, "steps", 1, 1'000'000'000,
                 "Steps after a merge during which the learning rate rises linearly to what the "
                 "schedule says.");
}

void check_relora(const config::Recipe& recipe) {
  const ReloraOptions& options = relora(recipe);
  if (options.rewarm <= options.merge_every) return;
  throw UsageError(fmt::format("[relora] rewarm must be <= merge_every = {}, got {}",
                               options.merge_every, options.rewarm));
}

bool merges_after(const config::Recipe& recipe, int64_t completed) {
  return facts_of(recipe.adapter).merges && completed > 0 && completed < recipe.train.steps &&
         completed % relora(recipe).merge_every == 0;
}

double rewarm_factor(const config::Recipe& recipe, int64_t step) {
  if (!facts_of(recipe.adapter).merges) return 1;
  const ReloraOptions& options = relora(recipe);
  if (step < options.merge_every) return 1;
  const int64_t since = step % options.merge_every;
  return std::min(1.0, static_cast<double>(since + 1) / static_cast<double>(options.rewarm));
}

}  // namespace thinwire::method
