// The parameters a run begins with.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::train {

// Fills `params`, laid out as recipe.model says, from train.init, whose model the recipe has taken
// (train/initial_model.h), or at random from run.seed. Throws UsageError when that model reads
// other tokens than those of `vocabulary` (null: the text is not looked at); says so where the
// folder has no vocabulary to compare.
void set_initial_parameters(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                            tensor::Arena& params);

// Parameters that the workers of a process begin with. Their memory is given back once every worker
// has its copy.
class InitialParameters {
 public:
  InitialParameters(std::shared_ptr<const tensor::Arena> values, int workers)
      : values_(std::move(values)), left_(workers) {}

  // To be called once by each worker, on its own thread.
  void copy_to(tensor::Arena& params);

 private:
  std::shared_ptr<const tensor::Arena> values_;
  std::atomic<int> left_;
};

}  // namespace thinwire::train
