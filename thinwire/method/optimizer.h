// Pure facts of an optimizer: which recipe fields it has, which state it keeps of each tensor, and
// in which coordinates it takes a tensor's gradient. Trainer and planner read the same facts, so
// that predicted memory is the memory that is held. The arithmetic is in optim/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "thinwire/base/agreement.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

struct OptimizerSpec;

// What an optimizer reads of a recipe.
struct OptimizerOptions {
  const OptimizerSpec* spec = nullptr;  // the one that [optim] method names; never null in use
  double lr = 0;                        // highest of the schedule
  double weight_decay = 0;
  bool tied = false;  // the model's head is its embedding
  uint64_t seed = 0;  // of the run
  std::map<std::string_view, std::shared_ptr<const config::Section>> sections;  // of all, by name

  template <typename Options>
  const Options& section(std::string_view optimizer) const {
    return dynamic_cast<const Options&>(*sections.at(optimizer));
  }
};

// A piece of what an optimizer keeps of one parameter. The pieces of one name, of all parameters
// that have it, are one tensor of a checkpoint.
struct StatePiece {
  std::string_view name;  // "adamw.m"; never changes, because checkpoints hold it
  Shape shape;
  DType dtype = DType::kF32;
  // Where all replicas were fed the same gradients; where they were not, all state is local.
  Agreement agreement = Agreement::kConsensus;
};

// Implements what the sections of optimizers have in common.
template <typename Derived>
class OptimizerSectionOf : public config::SectionOf<Derived> {
 public:
  std::string_view chosen_by() const override { return "optim.method"; }
};

// For optimizers that take a tensor's gradient element by element.
inline Shape own_elements(const OptimizerOptions&, const TensorSpec& tensor) {
  return tensor.shape;
}

struct OptimizerSpec {
  std::string_view name;      // value of optim.method
  std::string_view sentence;  // for --explain and the docs
  // A fresh section [name] with the optimizer's fields at their defaults.
  std::unique_ptr<config::Section> (*options)();
  // Throws UsageError where the optimizer's fields contradict the rest of the recipe.
  void (*check)(const config::Recipe& recipe);
  // Everything that must be saved of a parameter besides the step number.
  std::vector<StatePiece> (*state)(const OptimizerOptions& options, const TensorSpec& tensor);
  // The optimizer that takes the tensors which this one leaves, and whose section counts as well.
  const OptimizerSpec* rest = nullptr;
  // The gradient's coordinates: the shape in which an update takes it.
  Shape (*gradient)(const OptimizerOptions& options, const TensorSpec& tensor) = own_elements;
};

}  // namespace thinwire::method
