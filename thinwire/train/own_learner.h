// The learner whose losses and gradients a program computes itself, with a model of its own
// (architectures/external, docs/embedding.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/learner.h"

namespace thinwire::train {

// The mean loss over rows, and the gradients of it, which it sets or adds to zeros. Used by one
// thread.
using OwnLoss = std::function<double(std::span<const uint64_t> rows)>;

// What the program gives; must outlive the run.
struct OwnModel {
  // Called by each worker on its thread, once, with the memory of its weights and gradients, which
  // stays where it is.
  std::function<OwnLoss(tensor::Arena& weights, tensor::Arena& gradients)> worker;
  // What external.tensors of the recipe must be; empty: anything.
  std::vector<std::string> tensors = {};
  // Sets initial weights, which are drawn before (method::Architecture::initial); may be empty.
  std::function<void(tensor::Arena& weights)> initial = {};
  // As ReplicaParts::memory.
  std::function<std::span<float>(const tensor::Layout& layout)> memory = {};
};

// Rows count as tokens.
MakeLearner own_learner(const OwnModel& model);

// Throws UsageError unless a model is given (not null) for a recipe whose model is external, and
// only for one, and the recipe has its tensors.
void check_own_model(const config::Recipe& recipe, const OwnModel* model);

}  // namespace thinwire::train
