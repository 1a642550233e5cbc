// Pure facts of an optimizer: its recipe fields, the state it keeps for each tensor, and the
// coordinates in which it can take a tensor's gradient. Trainer and planner read the same facts, so
// that the predicted memory is the memory used. The arithmetic is in optim/optimizer.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/named_span.h"
#include "thinwire/base/number_format.h"
#include "thinwire/base/offload.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/optimizers/low_rank.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

struct OptimizerSpec;

// What an optimizer reads from a recipe.
struct OptimizerOptions {
  const OptimizerSpec* spec = nullptr;  // named by [optim] method; never null in use
  double lr = 0;                        // peak learning rate
  double weight_decay = 0;
  bool tied = false;  // the model's head is its embedding
  uint64_t seed = 0;  // of the run
  StateFormat state = StateFormat::kF32;
  StateFormat bases = StateFormat::kF32;
  bool projected = false;  // [optim] gradients
  // Whether other workers take the same steps and must get the same bits. A worker that alone steps
  // its weights may compute on a device in arithmetic of the device's own.
  bool replicated = true;
  std::shared_ptr<Offload> offload = {};  // where the state is; null: in memory
  // By tensor: whether another process has its state and updates it (method/memory/memory.h);
  // empty: none.
  std::vector<bool> elsewhere = {};
  std::map<std::string_view, std::shared_ptr<const config::Section>>
      sections;  // of all optimizers, by name

  bool updates(size_t tensor) const { return elsewhere.empty() || !elsewhere[tensor]; }

  template <typename Options>
  const Options& section(std::string_view optimizer) const {
    return dynamic_cast<const Options&>(*sections.at(optimizer));
  }
};

// What a piece of state is, which says whether it may be kept in fewer bits than fp32.
enum class StateKind : uint8_t {
  kExact,    // always fp32: histories, norms
  kBasis,    // basis vectors of a subspace, or a projection into one
  kMean,     // a running mean of gradients
  kSquares,  // a running mean of squares; steps are divided by its square root
};

// A piece of the state that an optimizer keeps for one parameter tensor. All pieces with the same
// name, over all tensors, are one tensor of a checkpoint.
struct StatePiece {
  std::string_view name;  // "adamw.m"; never changes, because checkpoints hold it
  Shape shape;
  StateKind kind = StateKind::kExact;
  // If all replicas are fed the same gradients; otherwise all state is local.
  Agreement agreement = Agreement::kConsensus;
};

inline StateFormat format_of(const OptimizerOptions& options, const StatePiece& piece) {
  if (piece.kind == StateKind::kExact) return StateFormat::kF32;
  return piece.kind == StateKind::kBasis ? options.bases : options.state;
}

// What the sections of optimizers have in common.
template <typename Derived>
class OptimizerSectionOf : public config::SectionOf<Derived> {
 public:
  std::string_view chosen_by() const override { return "optim.method"; }
};

struct OptimizerSpec {
  std::string_view name;      // value of optim.method
  std::string_view sentence;  // for --explain and the docs
  // A fresh section [name] with the optimizer's fields at their defaults.
  std::unique_ptr<config::Section> (*options)();
  // Throws UsageError if the optimizer's fields contradict the rest of the recipe.
  void (*check)(const config::Recipe& recipe);
  // Everything that must be saved for a parameter tensor besides the step number.
  std::vector<StatePiece> (*state)(const OptimizerOptions& options, const TensorSpec& tensor);
  // The optimizer for the tensors that this one does not handle; its section is used as well.
  const OptimizerSpec* rest = nullptr;
  // The subspace to which the optimizer projects a tensor's gradient. It needs no more than the
  // projection, except when the subspace is renewed. Rank 0: it needs the whole gradient. Null: it
  // needs that of all tensors.
  LowRankShape (*subspace)(const OptimizerOptions& options, const TensorSpec& tensor) = nullptr;
  // Whether it can update some rows of the embedding and the head before it has the gradient of the
  // others, as AdamW can, whose step is elementwise.
  bool vocabulary_by_rows = false;
  // Whether it steps by gradients; not where weights have been changed before it is asked to.
  bool takes_gradients = true;
  // The FLOPs of the products in a tensor's step, but for those of projecting (subspace); null: it
  // has none.
  double (*flops)(const TensorSpec& tensor) = nullptr;
  // Whether rules choose the learning rate where the recipe says "auto" (method/automatic.h).
  bool has_rules = false;
  // Whether parts of its state can be set to zero between steps, as ReLoRA does.
  bool can_reset = false;
  // The numerics version (docs/formats.md) since which it takes the steps that it takes now, but
  // for rounding.
  int steps_since = 0;
};

// The shape in which the optimizer takes a tensor's gradient: that of the projection if
// options.projected and the optimizer needs no more, else the tensor's own.
Shape gradient_shape(const OptimizerOptions& options, const TensorSpec& tensor);

// The table of optimizers. A new one adds a line in optimizers/optimizers.inc.

std::span<const OptimizerSpec* const> all_optimizers();

// One of these, or a program's own (optimizers/own). Throws UsageError listing the known names.
const OptimizerSpec& find_optimizer(std::string_view name);

// The options of the recipe's optimizer; throws as find_optimizer does.
OptimizerOptions optimizer_options(const config::Recipe& recipe);

}  // namespace thinwire::method
