#include "thinwire/optimizers/muon/muon_spec.h"

#include <algorithm>
#include <cmath>

#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<MuonOptions>(); }

void check(const config::Recipe&) {}

std::vector<StatePiece> state(const OptimizerOptions& options, const TensorSpec& tensor) {
  if (!tensor.is_hidden_matrix()) return kAdamw.state(options, tensor);
  return {{"muon.momentum", tensor.shape, StateKind::kMean}};
}

// Those of orthogonalising the momentum.
double flops(const TensorSpec& tensor) {
  if (!tensor.is_hidden_matrix()) return 0;
  const auto columns = static_cast<double>(tensor.shape.back());
  const double rows = static_cast<double>(tensor.count()) / columns;
  const double smaller = std::min(rows, columns), larger = std::max(rows, columns);
  return kNewtonSchulzSteps * (3 * smaller * smaller * larger + std::pow(smaller, 3));
}

}  // namespace

void MuonOptions::describe(config::Fields& fields) {
  fields.number("lr", lr, "", 0, 1e6,
                "Peak learning rate of the matrices of the blocks; 0 means optim.lr, which is "
                "suitable because steps are scaled to the size of AdamW's.");
  fields.number("momentum", momentum, "", 0, 0.999'999'999,
                "Decay of the matrices' momentum, per step.");
}

const OptimizerSpec kMuon = {
    .name = "muon",
    .sentence =
        "Steps along an orthogonalized momentum, for the matrices of the blocks; adamw for the "
        "rest.",
    .options = options,
    .check = check,
    .state = state,
    .rest = &kAdamw,
    .vocabulary_by_rows = true,
    .flops = flops,
    .has_rules = true,
};

}  // namespace thinwire::method
