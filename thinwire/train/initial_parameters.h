// The parameters a run begins with.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::train {

// Fills `params`, laid out as recipe.model says, from train.init or at random from run.seed. Throws
// UsageError that names the fields of [model] in which the model of train.init differs, or when its
// tokens stand for other text than those of `vocabulary` (null: the text is not looked at). Says
// where the model computes with another rope_theta or norm_eps, which it may.
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
