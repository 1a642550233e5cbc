// A model of the program's own: the program computes losses and gradients, and Thinwire does the
// rest (docs/embedding.md). The recipe names it and lists its tensors:
//
//   model.architecture = "external"
//   external.tensors = ["hidden 16x4", "offset 16", "out 1x16"]
//   train.sequence = 1
//
// A row is a number, from 0 to train.steps * train.batch - 1, that never comes again; what it
// stands for is the program's business.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace thinwire {

// One tensor of a worker's weights or gradients, as the recipe lists it; row-major.
struct OwnTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> values;
};

struct OwnModel {
  // Sets the gradients, which are zero before, to those of the mean loss over these rows, at least
  // one, and returns that loss. Called on one thread.
  using Loss = std::function<double(std::span<const uint64_t> rows)>;

  // Makes the function of one worker; called once by each, on its own thread, and again by a member
  // of a served run that starts over (thinwire/joining.h). The tensors, in the order of the recipe,
  // stay where they are until the function is destroyed.
  std::function<Loss(const std::vector<OwnTensor>& weights,
                     const std::vector<OwnTensor>& gradients)>
      worker;
  // The names and shapes that the function is for, as lines of external.tensors: a run with others
  // is refused, whatever their roles. Empty: the function takes any tensors, and must look at their
  // shapes where the recipe is somebody else's.
  std::vector<std::string> tensors = {};
  // Sets the weights with which a new run begins. They hold what is drawn from run.seed: matrices
  // normal(0, model.init_std), norms 1, biases 0. Each rank of an MPI job calls it, and all must
  // set the same. May be empty.
  std::function<void(const std::vector<OwnTensor>& weights)> initial = {};
  // Gives the memory of a worker's weights, on the worker's thread: so many values, aligned to 64
  // bytes, which outlive the run. Empty: it is allocated.
  std::function<std::span<float>(int64_t values)> memory = {};
  // The same for its gradients.
  std::function<std::span<float>(int64_t values)> gradient_memory = {};
};

}  // namespace thinwire
