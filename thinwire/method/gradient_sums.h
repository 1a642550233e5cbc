// The sums by which the workers of a step average their gradients, and when each begins.
//
// A backward pass completes gradients group by group (base/gradient_groups.h). The sum of a group's
// may travel while the pass forms the next one's, so that an exchange hides behind it. Gradients
// that are kept until the end of the step are then all awaited there, before they are clipped and
// applied; those that are handed over one after another (train.update = layer) are awaited a group
// later. In both cases the sums have the bits of a single one: every value is summed by itself.
// Where that is not so, gradients that are kept are summed in one piece after the backward pass:
//   number formats in which values share a scale (fp8, fp4, int2),
//   rules of sync.aggregate other than the mean, which judge contributions as a whole.
// So are they where it does not pay: projected gradients, which are small; gradients in a GPU's
// memory; and runs of many hosts, where each operation takes statements and records of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/method.h"
#include "thinwire/method/operations.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

// Whether gradients that are kept until the end of the step are summed in groups, the ranges of
// group_ranges(), during the step's last backward pass.
bool hides_sums(const config::Recipe& recipe, RunKind kind);

// The number of elements in each sum of gradients, in the order in which they begin.
std::vector<int64_t> gradient_sums(const config::Recipe& recipe,
                                   std::span<const TensorSpec> tensors, RunKind kind);

// Bytes of the sums that the transport forms at once where gradients are averaged at every step:
// all of them, or with those of groups that are handed over two, of which one is waited for while
// the other is begun.
double gradient_sum_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// The share of a step's computation after which the gradients of each group are complete, in the
// order of the groups, for a worker that takes `rows` of the step. From the operations of the
// passes: only the last pass completes gradients, and of a pass the forward half takes a third.
std::vector<double> completion_shares(const config::Recipe& recipe,
                                      std::span<const TensorSpec> tensors, int64_t rows);

// How the exchange of a step is spread over it (Method::parts). That of projected gradients, with
// its basis sums (method/gradient_sums.h), has no parts.
ExchangeParts exchange_parts(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// What model.recompute adds to a token's operations.
double recomputed_flops(const config::Recipe& recipe, const TokenWork& work);

// A token's operations in the last product, which model.vocab_slabs computes once more.
double head_flops(const config::Recipe& recipe, const TokenWork& work);

// What rules of sync.aggregate other than the mean (docs/aggregation.md) change about a method's
// exchanges: a dense sum cannot be formed by the transport, so each member receives all
// contributions.

// Whether contributions to dense sums of `method`, which may be the method within clusters, are
// gathered instead of being summed by the transport.
bool gathers_sums(const Method& method, const config::Recipe& recipe);

// How such sums are formed.
Collective collective_of_sums(const Method& method, const config::Recipe& recipe);

// What all `members` >= 1 together send and receive for a sum of contributions of `bytes` each,
// which has `sum_bytes` itself, and the number of dependent exchanges.
Piece sum_traffic(bool gathered, double bytes, double sum_bytes, int members);

// Bytes that a transport holds for a sum of `elements` values: the fp32 sum, or what all `members`
// contribute.
double sum_memory(bool gathered, double elements, WireType wire, int64_t members);

// The sums by which workers that average projected gradients agree on bases. A step of subspace
// iteration, on the mean gradient G of all workers, takes two products with G: P^T G and then its
// image, [rank, columns] and [rows, rank] values (optim/subspace.h). Each is averaged as soon as
// every worker has formed it from its own gradient, so no whole gradient is sent.
struct BasisSum {
  size_t tensor = 0;
  uint32_t number = 0;  // of the tensor's in this step
  int64_t elements = 0;
};

// The sums of a training step, counted from 0; none unless the recipe's workers average projected
// gradients at every step, in bases that follow the gradients. `tensors` are the model's.
std::vector<BasisSum> basis_sums(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                                 int64_t step);

// The mean of a run's steps.
struct BasisTraffic {
  double sums = 0;
  double bytes = 0;  // encoded
};
BasisTraffic basis_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// Elements of the largest such sum.
int64_t largest_basis_sum(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// The operation's fragment; gradients' own sums count from 0.
uint32_t basis_fragment(size_t tensor, uint32_t number);

// The number format of these sums where gradients have this one: at least bf16, since what is
// orthonormalised spreads the errors of a few values over all of them.
WireType basis_wire(WireType gradients);

}  // namespace thinwire::method
