// Ways to run a recipe in less memory: combinations of optimizer, rank, gradient storage,
// recomputation, batch, sequence, precision and number formats, each with the parts of its memory,
// its bytes on the wire and its work (docs/memory.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"

namespace thinwire::plan {

// All floating-point operations of a training step, not only those that count towards model FLOP/s:
// recomputation, projected gradients and the products of optimizers are included.

// For one member's step. model.vocab must be set.
double step_flops(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// One value of a dimension along which recipes are varied. A new option that saves memory is a line
// in the table of memory_choices.cpp.
struct MemoryOption {
  std::string name;                 // "galore, rank 64"; empty: as in the recipe
  std::vector<std::string> fields;  // that it sets, "table.field=value"
  // How much the result suffers: 0 not at all, 1 hardly, more is worse.
  int quality_cost = 0;
};

struct MemoryChoice {
  std::string optimizer;            // with its rank
  std::vector<std::string> names;   // of the other options that differ from the recipe
  std::vector<std::string> fields;  // to be added to the recipe
  config::Recipe recipe;
  std::vector<MemoryPart> parts;  // of a process with one worker (method::memory_parts), program
  double sent_bytes = 0;          // by a member, per step
  double received_bytes = 0;
  double tokens = 0;     // of a member, per step
  double flops = 0;      // of a member's step, recomputation and the optimizer's products included
  int quality_cost = 0;  // the sum over its options
  double bytes() const;  // sum of the parts
  double flops_per_token() const { return flops / tokens; }
};

// All combinations that thinwire train would accept, the best first: those that affect the result
// least, then those with the least work per token, the fewest changes and the least memory. The
// recipe is the one at `path` with `overrides`; an unknown vocabulary counts as plan::planned_model
// says. program_bytes: memory of the program before its first step, which is part of each.
std::vector<MemoryChoice> memory_choices(const std::filesystem::path& path,
                                         std::span<const std::string> overrides,
                                         double program_bytes);

// The first of each optimizer that needs at most `limit` bytes, in the given order.
std::vector<const MemoryChoice*> best_within(std::span<const MemoryChoice> choices, double limit);

// The one that needs least.
const MemoryChoice& smallest(std::span<const MemoryChoice> choices);

}  // namespace thinwire::plan
