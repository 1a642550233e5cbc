#include "thinwire/method/method.h"

#include "thinwire/base/block_sizes.h"

namespace thinwire::method {

double optimizer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const bool muon = recipe.optim.method == "muon";
  double values = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const int moments = muon && tensors[t].is_hidden_matrix() ? 1 : 2;
    values += moments * static_cast<double>(arena_elements(tensors.subspan(t, 1)));
  }
  return sizeof(float) * values;
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
  return traffic;
}

int64_t arena_elements(std::span<const TensorSpec> tensors) {
  int64_t elements = 0;
  for (const TensorSpec& tensor : tensors) elements += padded_elements(tensor.count());
  return elements;
}

}  // namespace thinwire::method
