#include "thinwire/method/method.h"

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

StateBytes optimizer_state(const OptimizerOptions& options, std::span<const TensorSpec> tensors) {
  StateBytes bytes;
  for (const TensorSpec& tensor : tensors) {
    for (const StatePiece& piece : options.spec->state(options, tensor)) {
      const StateFormat format = format_of(options, piece);
      const auto size = static_cast<double>(state_bytes(format, element_count(piece.shape)));
      (piece.agreement == Agreement::kConsensus ? bytes.consensus : bytes.local) += size;
    }
  }
  return bytes;
}

StateBytes optimizer_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  return optimizer_state(optimizer_options(recipe), tensors);
}

double optimizer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const StateBytes bytes = optimizer_state(recipe, tensors);
  return bytes.consensus + bytes.local;
}

double ring_bytes(int64_t parameters, int members) {
  return 2.0 * (members - 1) / members * 2.0 * static_cast<double>(parameters);
}

Traffic per_step(const Traffic& of_round, const schedule::Rounds& rounds) {
  const double share = static_cast<double>(rounds.count()) / static_cast<double>(rounds.steps);
  Traffic traffic = of_round;
  traffic.sent_bytes *= share;
  traffic.received_bytes *= share;
  traffic.round_trips *= share;
  traffic.gathered_sum.rounds *= share;
  return traffic;
}

int64_t arena_elements(std::span<const TensorSpec> tensors) {
  int64_t elements = 0;
  for (const TensorSpec& tensor : tensors) elements += padded_elements(tensor.count());
  return elements;
}

}  // namespace thinwire::method
