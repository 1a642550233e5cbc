#include "thinwire/method/gradient_sums.h"

#include <algorithm>
#include <numeric>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/methods/distro/distro_spec.h"

namespace thinwire::method {
namespace {

constexpr double kForward = 1.0 / 3;            // of a product's three
constexpr double kForwardAttention = 2.0 / 7;   // of attention's seven (architecture.h)
constexpr double kAttentionProducts = 1.0 / 4;  // of a block's: about those of q, k and v

WireType wire_of(const config::Recipe& recipe) {
  return recipe.section<AllReduceOptions>("allreduce").wire;
}

bool streams(const config::Recipe& recipe) {
  return gradient_store(recipe) == GradientStore::kStreamed;
}

// Elements of the groups' sums where gradients are handed over, with the gaps between tensors.
std::vector<int64_t> group_elements(std::span<const TensorSpec> gradients,
                                    std::span<const TensorSpec> tensors) {
  std::vector<int64_t> sums;
  for (const GradientGroup& group : gradient_groups(tensors)) {
    int64_t& sum = sums.emplace_back(0);
    for (const size_t tensor : group.tensors) sum += padded_elements(gradients[tensor].count());
  }
  return sums;
}

// The operations of a pass over a token, by where they are.
struct PassWork {
  double forward = 0;   // of all blocks
  double head = 0;      // forward and backward
  double backward = 0;  // of all blocks
};

PassWork pass_work(const config::Recipe& recipe) {
  const TokenWork work =
      find_architecture(recipe.model.architecture)
          .work(ModelSpec(recipe), {.rows = 1, .sequence = recipe.train.sequence});
  const double forward = kForward * work.products + kForwardAttention * work.attention;
  const double backward = work.products + work.attention - forward;
  return {forward, head_flops(recipe, work), backward + recomputed_flops(recipe, work)};
}

// The share of the step's rows that its last pass takes.
double last_pass(const config::TrainSection& train, int64_t rows) {
  const int64_t a_pass = std::min(rows_per_pass(train), rows);
  const int64_t last = rows - (rows - 1) / a_pass * a_pass;
  return static_cast<double>(last) / static_cast<double>(rows);
}

}  // namespace

double recomputed_flops(const config::Recipe& recipe, const TokenWork& work) {
  if (recipe.model.recompute == config::Recompute::kNone) return 0;
  const bool block = recipe.model.recompute == config::Recompute::kBlock;
  return kForwardAttention * work.attention +
         kForward * (block ? 1 : kAttentionProducts) * work.products;
}

double head_flops(const config::Recipe& recipe, const TokenWork& work) {
  return work.head * (recipe.model.vocab_slabs > 1 ? 1 + kForward : 1);
}

bool hides_sums(const config::Recipe& recipe, RunKind kind) {
  return kind == RunKind::kJob && recipe.section<AllReduceOptions>("allreduce").hide &&
         gradient_store(recipe) == GradientStore::kWhole && wire_block(wire_of(recipe)) == 1 &&
         !gathers_sums(kAllReduce, recipe) && recipe.train.device == config::DeviceChoice::kCpu;
}

std::vector<int64_t> gradient_sums(const config::Recipe& recipe,
                                   std::span<const TensorSpec> tensors, RunKind kind) {
  const std::vector<TensorSpec> gradients = gradient_tensors(optimizer_options(recipe), tensors);
  if (streams(recipe)) return group_elements(gradients, tensors);
  if (!hides_sums(recipe, kind)) return {arena_elements(gradients)};
  std::vector<int64_t> sums;
  for (const GroupRange& range : group_ranges(gradients)) sums.push_back(range.count);
  return sums;
}

double gradient_sum_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  if (members_of_a_step(recipe) == 1) return 0;
  const std::vector<int64_t> sums = gradient_sums(recipe, tensors, RunKind::kJob);
  const int64_t all = std::accumulate(sums.begin(), sums.end(), int64_t{0});
  const int64_t basis = largest_basis_sum(recipe, tensors);
  const int64_t held = streams(recipe) && sums.size() > 1
                           ? 2 * *std::ranges::max_element(sums) + basis
                           : std::max(all, basis);
  return sizeof(float) * static_cast<double>(held);
}

std::vector<double> completion_shares(const config::Recipe& recipe,
                                      std::span<const TensorSpec> tensors, int64_t rows) {
  const PassWork work = pass_work(recipe);
  const double pass = work.forward + work.head + work.backward;
  const double last = last_pass(recipe.train, rows);
  const auto layers = static_cast<double>(recipe.model.layers);
  std::vector<double> shares;
  for (const GradientGroup& group : gradient_groups(tensors)) {
    const bool of_block = tensors[group.tensors.front()].layer >= 0;
    const double above = of_block ? group.number / layers : 1;
    const double left =
        group.number == kEmbeddingGroup ? 0 : above;  // of the blocks' backward pass
    shares.push_back(1 - last * left * work.backward / pass);
  }
  return shares;
}

ExchangeParts exchange_parts(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const bool in_turn = streams(recipe);
  const bool projects = recipe.optim.gradients == config::GradientCoordinates::kProjected;
  if (projects || !(in_turn || hides_sums(recipe, RunKind::kJob))) return {};
  const config::TrainSection& train = recipe.train;
  const std::vector<double> shares =
      completion_shares(recipe, tensors, (train.batch + train.workers - 1) / train.workers);
  const std::vector<GradientGroup> groups = gradient_groups(tensors);
  const std::vector<GroupRange> ranges = group_ranges(tensors);
  const std::vector<int64_t> sums = gradient_sums(recipe, tensors, RunKind::kJob);
  ExchangeParts parts{{}, in_turn};
  double all = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const int number = in_turn ? groups[i].number : ranges[i].group;
    const auto group = std::ranges::find(groups, number, &GradientGroup::number);
    const auto bytes =
        static_cast<double>(wire_bytes(wire_of(recipe), static_cast<uint64_t>(sums[i])));
    parts.all.push_back({bytes, shares[static_cast<size_t>(group - groups.begin())]});
    all += bytes;
  }
  for (ExchangePart& part : parts.all) part.bytes /= all;
  return parts;
}

bool gathers_sums(const Method& method, const config::Recipe& recipe) {
  return recipe.sync.aggregation().robust() && method.name == recipe.sync.method;
}

Collective collective_of_sums(const Method& method, const config::Recipe& recipe) {
  return gathers_sums(method, recipe) ? Collective::kGather : Collective::kReduce;
}

Piece sum_traffic(bool gathered, double bytes, double sum_bytes, int members) {
  if (members == 1) return {.round_trips = 0};
  if (gathered) return {bytes * members, bytes * members * (members - 1), 1};
  const double all = (bytes + sum_bytes) * (members - 1);
  return {all, all, 2, 0, sum_bytes / bytes};
}

double sum_memory(bool gathered, double elements, WireType wire, int64_t members) {
  if (!gathered) return sizeof(float) * elements;
  return static_cast<double>(wire_bytes(wire, static_cast<uint64_t>(elements))) *
         static_cast<double>(members);
}

}  // namespace thinwire::method
