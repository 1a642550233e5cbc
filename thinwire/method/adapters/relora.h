// ReLoRA (Lialin et al. 2023, arXiv 2307.05695): every merge_every steps s B A is added to W, the
// factors are drawn again, most of the factors' optimizer state is set to zero, and the learning
// rate rises again. So the sum of many low-rank updates has a high rank. The merge itself is in
// train/relora.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "thinwire/config/fields.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

// The table [relora].
struct ReloraOptions final : config::SectionOf<ReloraOptions> {
  int64_t merge_every = 1000;  // the paper's cycle
  double reset = 0.999;
  int64_t rewarm = 100;
  void describe(config::Fields& fields) override;
  std::string_view chosen_by() const override { return "adapter.kind"; }
};

// Throws UsageError if the table contradicts itself.
void check_relora(const config::Recipe& recipe);

// Whether the recipe's run merges once `completed` steps are done; never after the last one.
bool merges_after(const config::Recipe& recipe, int64_t completed);

// The factor of the learning rate in a step (from 0): (i + 1) / rewarm in the i-th step after a
// merge, at most 1; 1 before the first merge and for all other adapters.
double rewarm_factor(const config::Recipe& recipe, int64_t step);

}  // namespace thinwire::method
