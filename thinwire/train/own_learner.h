// The learner whose losses and gradients a program computes itself: with a model of its own
// (architectures/external, docs/embedding.md), or with one that has the tensors of the recipe's
// language model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/learner.h"

namespace thinwire::train {

// A worker of a run, and the memory of its weights and gradients, which stays where it is.
struct OwnWorker {
  int id = 0;
  const config::Recipe& recipe;
  tensor::Arena& weights;
  tensor::Arena& gradients;
};

// A worker's part of a step: at least one row.
struct OwnStep {
  int64_t step = 0;  // counted from 0
  float learning_rate = 0;
  std::span<const uint64_t> rows;
  // The tokens of a language model's rows, [rows, sequence + 1], as in data::RowBlock; else empty.
  std::span<const int32_t> tokens = {};
  int64_t sequence = 0;
  // With optim.method = own: the weights are new, and what the program's optimizer has learnt of
  // others is of no use.
  bool begins = false;
};

// What the program says when it has computed a step.
struct OwnAnswer {
  std::optional<double> loss;  // mean over the rows; none: the program does not know it
  // With which the step is to be taken, or has been with optim.method = own; none: the recipe's.
  // Only runs of one worker on one machine take another than the recipe's.
  std::optional<float> learning_rate = {};
  double gradient_norm = 0;  // with optim.method = own, which leaves the gradients' memory alone
};

// Computes the gradients of the mean loss over the rows, which it adds to zeros
// (OwnModel::sets_gradients: to which it sets them); with
// optim.method = own it changes the weights instead. Used by one thread. Throws NotComputed
// (train/learner.h) if the program ends the run.
using OwnLoss = std::function<OwnAnswer(const OwnStep& step)>;

// What the program gives; must outlive the run.
struct OwnModel {
  // Called by each worker on its thread, once.
  std::function<OwnLoss(const OwnWorker& worker)> worker;
  // Names and shapes of the recipe's tensors, as lines of external.tensors, whose roles do not
  // count; empty: any. In the recipe's order, unless that has a language model.
  std::vector<std::string> tensors = {};
  // Whether it can also be a language model that Thinwire computes, too: its members take part in
  // the same run, and it does not evaluate.
  bool takes_tokens = false;
  // Whether it sets all gradients, so that they need not be zero when it begins a step.
  bool sets_gradients = false;
  // Sets initial weights, which are drawn before (method::Architecture::initial); may be empty.
  std::function<void(tensor::Arena& weights)> initial = {};
  // As ReplicaParts has them.
  ArenaMemory memory = {};
  ArenaMemory gradient_memory = {};
};

// rows: of a language model's texts; null: there are none, and rows count as tokens. The learner's
// making throws UsageError if a language model's tensors are others.
MakeLearner own_learner(const OwnModel& model, const data::Rows* rows);

// Throws UsageError unless a model is given (not null) for a recipe whose model is external, and
// otherwise only one that takes tokens, for a recipe that goes with it; and if an external recipe
// has other tensors.
void check_own_model(const config::Recipe& recipe, const OwnModel* model);

}  // namespace thinwire::train
