#include "thinwire/methods/allreduce/allreduce_spec.h"

#include "thinwire/config/recipe.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/method.h"
#include "thinwire/method/within.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<AllReduceOptions>(); }

void check(const config::Recipe&) {}

// Each of the m members owns a chunk of the arena (wire_chunk). It sends its contributions to the
// chunks it does not own, and the sum of its own chunk to the m - 1 others; the same amounts come
// back. With n bytes, a member with a chunk of c bytes sends n - c + (m - 1) c, which averages to
// 2 n (m - 1) / m exactly, wherever the chunks' borders fall. With a rule other than the mean it
// sends n and receives (m - 1) n.
Traffic traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors, int members) {
  const WireType wire = recipe.section<AllReduceOptions>("allreduce").wire;
  double bytes = 0;
  for (const int64_t elements : gradient_sums(recipe, tensors, RunKind::kJob)) {
    bytes += static_cast<double>(wire_bytes(wire, static_cast<uint64_t>(elements)));
  }
  const BasisTraffic bases = basis_traffic(recipe, tensors);
  bytes += bases.bytes;
  const Piece sums = sum_traffic(gathers_sums(kAllReduce, recipe), bytes, bytes, members);
  Traffic traffic;
  traffic.sent_bytes = sums.sent_bytes / members;
  traffic.received_bytes = sums.received_bytes / members;
  traffic.round_trips = sums.round_trips * (1 + bases.sums);
  // Within clusters the method of these sends them.
  return recipe.sync.clustered() ? traffic : with_speeds(traffic, recipe, members);
}

OperationsAfter operations(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                           RunKind kind) {
  // One worker's gradient is not coded (Round::followed).
  const WireType wire = recipe.train.workers == 1
                            ? WireType::kF32
                            : recipe.section<AllReduceOptions>("allreduce").wire;
  const WireType bases = basis_wire(recipe.section<AllReduceOptions>("allreduce").wire);
  std::vector<Operation> sums;
  for (const int64_t elements : gradient_sums(recipe, tensors, kind)) {
    sums.push_back({.collective = collective_of_sums(kAllReduce, recipe),
                    .fragment = static_cast<uint32_t>(sums.size()),
                    .bytes = wire_bytes(wire, static_cast<uint64_t>(elements))});
  }
  return [&recipe, tensors, bases, sums](int64_t step) {
    std::vector<Operation> operations = sums;
    for (const BasisSum& sum : basis_sums(recipe, tensors, step)) {
      operations.push_back({.collective = collective_of_sums(kAllReduce, recipe),
                            .fragment = basis_fragment(sum.tensor, sum.number),
                            .bytes = wire_bytes(bases, static_cast<uint64_t>(sum.elements))});
    }
    for (Operation& operation : operations) {
      operation.round = static_cast<uint64_t>(step);
      operation.due = step + 1;
    }
    return operations;
  };
}

// The optimizer's and clipping's; every replica feeds them the same gradients.
StateBytes state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  StateBytes bytes = optimizer_state(recipe, tensors);
  bytes.consensus += clipping_bytes(recipe);
  bytes.sums = sum_memory(gathers_sums(kAllReduce, recipe),
                          gradient_sum_bytes(recipe, tensors) / sizeof(float),
                          recipe.section<AllReduceOptions>("allreduce").wire, recipe.train.workers);
  return bytes;
}

}  // namespace

void AllReduceOptions::describe(config::Fields& fields) {
  fields.choice(
      "wire", wire,
      {WireType::kBf16, WireType::kF32, WireType::kFp8, WireType::kFp4, WireType::kInt2},
      "Number format in which gradients and their sums are sent; sums are formed in fp32.");
  fields.flag("hide", hide,
              "Whether the gradients of a group of tensors are averaged while the backward pass "
              "computes the next; results have the same bits. Needs wire = bf16 or fp32.");
}

const Method kAllReduce = {
    .name = "allreduce",
    .sentence = "Averages the gradients over all workers every step.",
    .options = options,
    .check = check,
    .traffic = traffic,
    .state = state,
    .operations = operations,
    .parts = exchange_parts,
    .streams = true,
    .keeps_bf16_weights = true,
};

const std::span<const Method> kAllReduceMethods(&kAllReduce, 1);

}  // namespace thinwire::method
