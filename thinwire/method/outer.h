// What the methods have in common whose workers train on their own and exchange, every so many
// steps, how far they came: local SGD, DiLoCo, Streaming DiLoCo. Their recipe fields, the fragments
// they cut a model into, what they send and keep. The code is in sync/outer.h, the equations in
// docs/methods/diloco.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/clusters.h"
#include "thinwire/method/method.h"
#include "thinwire/schedule/fragments.h"

namespace thinwire::method {

// The table of such a method; each has defaults of its own.
struct OuterOptions final : config::SectionOf<OuterOptions> {
  int64_t sync_every = 100;        // H
  int64_t fragment_layers = 0;     // 0: the whole model is one fragment, and there is no such field
  std::string outer = "nesterov";  // nesterov | momentum | sgd | average
  double outer_lr = 0.7;
  double outer_momentum = 0.9;  // mu
  std::string wire = "bf16";    // fp32 | bf16 | fp8 | fp4 | int2
  bool error_feedback = false;
  std::string overlap = "none";  // none | inner | delayed | eager
  int64_t overlap_steps = 1;     // tau
  double mix = 0.5;              // alpha
  int64_t depth = 1;             // d
  void describe(config::Fields& fields) override;

  WireType wire_type() const { return *parse_wire(wire); }
  bool has_momentum() const { return outer == "nesterov" || outer == "momentum"; }
  bool eager() const { return overlap == "eager"; }
  // Sums of a fragment that are under way between two of its sends, at most.
  int64_t behind() const;
  // Buffers of the model's size that hold what was sent; none where nothing stays under way.
  int64_t buffers() const;
};

// Fragments of a model of `layers` blocks: 1, or ceil(layers / fragment_layers).
int64_t fragment_count(int64_t layers, int64_t fragment_layers);

// The fragment each tensor belongs to. Block l is in fragment l mod P, the embedding in the first,
// final norm and head in the last.
std::vector<int64_t> fragments_of(std::span<const TensorSpec> tensors, int64_t fragment_layers);

schedule::FragmentSchedule fragment_schedule(const OuterOptions& options,
                                             const config::Recipe& recipe, int64_t fragments);

// What a mean member sends and receives in a training step within its cluster; nothing where each
// is alone.
Traffic within_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       int members);
// A round's traffic and what it takes to hand its result, `elements` fp32 values, from the first
// worker of each cluster to the others.
Traffic add_spread(const Traffic& of_round, const config::Recipe& recipe, double elements,
                   int members);
// With what members tell each other of their speed, where rows are divided by it.
Traffic add_speeds(const Traffic& mean, const config::Recipe& recipe, int64_t sync_every,
                   int members);
// Bytes of the state that training inside clusters keeps beside the weights, and the check of it.
double within_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors);
void check_within(const config::Recipe& recipe);

// The facts of a method with such options (method/method.h); `table` names it in errors.
void check_outer(std::string_view table, const OuterOptions& options, const config::Recipe& recipe);
Traffic outer_traffic(const OuterOptions& options, const config::Recipe& recipe,
                      std::span<const TensorSpec> tensors, int members);
StateBytes outer_state(const OuterOptions& options, const config::Recipe& recipe,
                       std::span<const TensorSpec> tensors);

// These facts for the recipe's table kTable.
template <const char* kTable>
struct OuterFacts {
  static const OuterOptions& of(const config::Recipe& recipe) {
    return recipe.section<OuterOptions>(kTable);
  }
  static void check(const config::Recipe& recipe) { check_outer(kTable, of(recipe), recipe); }
  static Traffic traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                         int members) {
    return outer_traffic(of(recipe), recipe, tensors, members);
  }
  static StateBytes state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
    return outer_state(of(recipe), recipe, tensors);
  }
  static int64_t sync_every(const config::Recipe& recipe) { return of(recipe).sync_every; }
};

}  // namespace thinwire::method
