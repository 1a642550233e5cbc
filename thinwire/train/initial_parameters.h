// The parameters with which a run begins.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::train {

// Fills `params`, laid out as recipe.model says, from train.init, whose model the recipe has taken
// (train/initial_model.h), or at random from run.seed. Throws UsageError if that model reads
// different tokens than those of `vocabulary` (null: not compared); says so if the folder has no
// vocabulary to compare.
void set_initial_parameters(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                            tensor::Arena& params);

// The parameters with which the workers of a process begin. Their memory is freed once every worker
// has its copy.
class InitialParameters {
 public:
  InitialParameters(std::shared_ptr<const tensor::Arena> values, int workers)
      : values_(std::move(values)), left_(workers) {}

  // Each worker calls this once, on its own thread.
  void copy_to(tensor::Arena& params);

 private:
  std::shared_ptr<const tensor::Arena> values_;
  std::atomic<int> left_;
};

}  // namespace thinwire::train
