// Pure facts of a synchronisation method: its recipe fields, the state it keeps, and how many bytes
// it sends for given shapes. Trainer, coordinator and planner read the same facts, so that a
// prediction cannot disagree with the run. The code that moves the bytes is in
// sync/algorithm.h.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::method {

// The cost of one exchange or sum for each member that takes part: all members or, with clusters,
// only the first of each.
struct Piece {
  double sent_bytes = 0;
  double received_bytes = 0;
  double round_trips = 1;      // dependent exchanges
  double broadcast_bytes = 0;  // with clusters: what their first members then send to the others
  double sum_share = 1;        // of a sum: its encoded size by that of a contribution
};

// A part of a step's exchange that begins during the step's computation, as shares of both.
struct ExchangePart {
  double bytes = 1;
  double begins = 1;  // when so much of the computation is done
};

// In the order in which they begin.
struct ExchangeParts {
  std::vector<ExchangePart> all;
  // Whether each is awaited as soon as the next has begun, the last after the step; else all are
  // awaited after the step.
  bool in_turn = false;
};

// Payloads that everybody receives from everybody, where their sum may come in their place
// (docs/hosts.md, "Sums").
struct GatheredSum {
  double payload = 0;  // bytes
  double sum = 0;      // bytes; 0: there is none
  double rounds = 1;   // in a step
};

// The cost of one member's own frames (not of TLS or TCP) in one training step, as the mean over a
// run's steps. With payloads of varying size `exact` is false and the numbers are upper bounds.
struct Traffic {
  double sent_bytes = 0;      // payload counted once, as handed to a relay or aggregator
  double received_bytes = 0;  // from all others
  double round_trips = 1;     // dependent exchanges
  bool exact = true;
  double overlap_steps = 0;        // steps that an exchange may be in flight; not a mean
  int64_t overlap_after = 0;       // rounds at the start of the run that are waited for at once
  std::vector<Piece> pieces = {};  // of a round, evenly spread over it; empty: all at once
  double sum_share = 1;            // as in Piece
  GatheredSum gathered_sum = {};   // with one piece at most
};

// Bytes of a member's optimizer and synchronisation state, by whether replicas must agree on it,
// and of the sums that its transport forms.
struct StateBytes {
  double consensus = 0;  // bit-identical on all replicas
  double local = 0;      // differs between replicas
  // fp32 sums of all_reduce that may be formed or in flight at once; members in one process share
  // them.
  double sums = 0;
};

// Method::sync_every of methods that synchronise after every training step.
inline int64_t every_step(const config::Recipe&) { return 1; }

struct Method {
  std::string_view name;      // value of sync.method
  std::string_view sentence;  // for --explain and the docs
  // A fresh section [name] with the method's fields at their defaults.
  std::unique_ptr<config::Section> (*options)();
  // Throws UsageError if the method's fields contradict the rest of the recipe.
  void (*check)(const config::Recipe& recipe);
  // Traffic of a training step, `members` >= 1.
  Traffic (*traffic)(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                     int members);
  StateBytes (*state)(const config::Recipe& recipe, std::span<const TensorSpec> tensors);
  // Number of training steps in a round.
  int64_t (*sync_every)(const config::Recipe& recipe) = every_step;
  // Whether workers, or clusters of them, train their own weights between synchronisations.
  bool local_updates = false;
  // Whether a contribution may also be part of a later sum (sync.late = "count"): each is a change
  // of weights that the member does not keep for itself if it is left out.
  bool sums_late = false;
  // Whether members clip and noise what they send as [privacy] says (sync/private_sum.h).
  bool makes_private = false;
  // The strategy in sync/registry.cpp that implements it; presets of one algorithm share it.
  std::string_view algorithm = name;
  // The method's own operations that open after a training step (operations.h). Null: after every
  // round's last step one all_gather, of payloads as large as traffic() says, waited for at once.
  // The recipe and the tensors outlive what it returns.
  OperationsAfter (*operations)(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                                RunKind kind) = nullptr;
  // How the exchange of a step is spread over it; no parts: all of it comes after the step's
  // computation, as it does if this is null. model.vocab must be set. Only of methods without
  // pieces (Traffic::pieces) and overlap.
  ExchangeParts (*parts)(const config::Recipe& recipe,
                         std::span<const TensorSpec> tensors) = nullptr;
  // Whether it takes gradients one after another during the backward pass, with train.update =
  // layer. Where workers take local steps, the method inside their clusters decides.
  bool streams = false;
  // Whether it changes weights only through the optimizer, which can keep them in bf16.
  bool keeps_bf16_weights = false;
};

// A round's traffic, averaged over its training steps.
Traffic per_step(const Traffic& of_round, const schedule::Rounds& rounds);

// What members on many hosts send (docs/hosts.md), where it differs from other transports.

// With Sums::kAuto, what a member must receive less for the coordinator to form a sum.
inline constexpr uint64_t kMinSavedBytes = 1 << 20;

// Whether the coordinator forms the sum of so many contributions of `bytes` each. If so, a member
// that contributes receives the sum, and otherwise the contributions of the others.
bool coordinator_sums(config::Sums sums, uint64_t contributions, double bytes, double sum_bytes);

// `traffic` is what a method without clusters says for `members`. On many hosts a member sends all
// of its contribution to a sum once, and receives the sum or the contributions of all others, in
// one exchange.
Traffic hosted_traffic(Traffic traffic, config::Sums sums, int members);

// State of the recipe's optimizer on replicas that are all fed the same gradients.
StateBytes optimizer_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors);
StateBytes optimizer_state(const OptimizerOptions& options, std::span<const TensorSpec> tensors);
// The same in total, whether or not replicas agree on it.
double optimizer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// Bytes of a bandwidth-optimal ring all-reduce in bf16, sent by one member: 2 (m-1)/m * 2N.
double ring_bytes(int64_t parameters, int members);

// Elements of an arena that holds these tensors, alignment padding included (base/block_sizes.h).
int64_t arena_elements(std::span<const TensorSpec> tensors);

// The methods of each folder of thinwire/methods.
#define THINWIRE_METHOD(Name) extern const std::span<const Method> k##Name##Methods;
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD

}  // namespace thinwire::method
