#include <fmt/format.h>

#include "thinwire/base/wire.h"
#include "thinwire/config/recipe.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/plan/expected_loss.h"

namespace thinwire::plan {
namespace {

ExpectedLoss allreduce_loss(const LossTerms& terms) {
  const auto& options =
      terms.candidate.recipe.section<method::AllReduceOptions>(terms.candidate.method);
  if (options.wire != WireType::kF32 && options.wire != WireType::kBf16) {
    return unknown_loss(
        fmt::format("no run or paper has gradients in {}", wire_name(options.wire)));
  }
  return all_reduce_loss(terms);
}

}  // namespace

const AlgorithmLoss kAllReduceLoss = {"allreduce", allreduce_loss};

}  // namespace thinwire::plan
