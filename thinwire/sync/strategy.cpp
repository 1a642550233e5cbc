#include "thinwire/sync/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/units.h"

namespace thinwire::sync {

void require_finite(double gradient_norm, const Round& round, int member) {
  if (std::isfinite(gradient_norm)) return;
  throw Error(
      fmt::format("step {}: the gradient norm is {} on worker {}; lower optim.lr or raise "
                  "schedule.warmup",
                  round.step + 1, without_nan_sign(gradient_norm), member));
}

void Strategy::reset() {
  for (const StateTensor& part : state()) std::ranges::fill(part.bytes, uint8_t{0});
}

void share_params(const tensor::Arena& params, Strategy& strategy) {
  tensor::Arena* const shared = strategy.shared();
  if (shared != nullptr) shared->assign(params);
}

}  // namespace thinwire::sync
