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

// A worker, and the memory of its weights and gradients, which stays where it is.
struct OwnWorker {
  int id = 0;
  tensor::Arena& weights;
  tensor::Arena& gradients;
};

// A worker's part of a step: at least one row.
struct OwnStep {
  int64_t step = 0;  // counted from 0
  float learning_rate = 0;
  std::span<const uint64_t> rows;
};

// The mean loss over the rows, and the gradients of it, which it sets or adds to zeros. Used by one
// thread. Throws NotComputed (train/learner.h) if the program ends the run instead.
using OwnLoss = std::function<double(const OwnStep& step)>;

// What the program gives; must outlive the run.
struct OwnModel {
  // Called by each worker on its thread, once.
  std::function<OwnLoss(const OwnWorker& worker)> worker;
  // Names and shapes of the recipe's tensors, as lines of external.tensors, whose roles do not
  // count; empty: any.
  std::vector<std::string> tensors = {};
  // Sets initial weights, which are drawn before (method::Architecture::initial); may be empty.
  std::function<void(tensor::Arena& weights)> initial = {};
  // As ReplicaParts has them.
  ArenaMemory memory = {};
  ArenaMemory gradient_memory = {};
};

// Rows count as tokens.
MakeLearner own_learner(const OwnModel& model);

// Throws UsageError unless a model is given (not null) for a recipe whose model is external, and
// only for one, and the recipe has its tensors.
void check_own_model(const config::Recipe& recipe, const OwnModel* model);

}  // namespace thinwire::train
