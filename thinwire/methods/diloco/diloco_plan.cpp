#include <fmt/format.h>

#include "thinwire/config/recipe.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/plan/expected_loss.h"

namespace thinwire::plan {
namespace {

// One bit with error feedback, beside fp32 with as many steps between exchanges: level after 10 000
// steps of a model of 0.2 M parameters, and so far behind after 41 000
// (bench/results/2026-11-28-one-bit-muon.md).
constexpr double kOneBitLoss = 0.04;
constexpr int64_t kMaxOneBitSteps = 64;

ExpectedLoss diloco_loss(const LossTerms& terms) {
  const config::Recipe& recipe = terms.candidate.recipe;
  const auto& options = recipe.section<method::DilocoOptions>(terms.candidate.method);
  if (options.wire == WireType::kInt2 && !options.error_feedback) {
    return unknown_loss("no run has two bits without error_feedback");
  }
  if (options.wire != WireType::kInt1) return local_sgd_loss(terms);
  if (terms.sync_every > kMaxOneBitSteps) {
    return unknown_loss(
        fmt::format("no run in one bit has more than {} steps between exchanges", kMaxOneBitSteps));
  }
  ExpectedLoss expected = local_sgd_loss(terms);
  *expected.nats += kOneBitLoss;
  expected.basis += fmt::format(" + {:.2f} in one bit", kOneBitLoss);
  return expected;
}

}  // namespace

const AlgorithmLoss kDilocoLoss = {"diloco", diloco_loss};

}  // namespace thinwire::plan
