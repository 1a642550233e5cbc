// A worker's computation in virtual time (transport/simulated_network.h): a step takes what
// links.step_s says, more or less where the worker takes more or fewer rows than an even share, and
// the clock has come as far as the backward pass whenever that completes a group of gradients
// (method::completion_shares).
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::train {

class SimulatedCompute {
 public:
  // simulation null: links are not simulated, and nothing happens. All must outlive this object.
  SimulatedCompute(const config::Recipe& recipe, const tensor::Layout& layout,
                   transport::SimulatedNetwork* simulation, int member);

  // A step in which the worker takes `rows` rows, perhaps none.
  void begin(int64_t rows);
  // The gradients of a group are complete.
  void completed(int group);
  // The rest of the step's computation. Returns the seconds of all of it; 0 without simulation.
  double end();

 private:
  void advance_to(double share);

  const config::Recipe& recipe_;
  const tensor::Layout& layout_;
  transport::SimulatedNetwork* const simulation_;
  const int member_;
  const std::vector<GradientGroup> groups_;
  std::vector<double> shares_;  // of a step of rows_, by group
  int64_t rows_ = 0;
  double steps_ = 0;  // the present step, in even ones
  double done_ = 0;   // share of it
};

}  // namespace thinwire::train
