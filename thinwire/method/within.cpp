#include "thinwire/method/within.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {

Clusters clusters_of(const config::SyncSection& sync, int members) {
  return {members, sync.clustered() ? static_cast<int>(sync.clusters) : members};
}

void check_within(const config::Recipe& recipe) {
  if (!recipe.sync.clustered()) return;
  const Method& within = find_method(name_of(recipe.sync.within));
  within.check(recipe);
  if (within.sync_every(recipe) == 1) return;
  throw UsageError(
      fmt::format("[sync] within = \"{}\" needs [{}] local_steps = 1, got {}: the workers of a "
                  "cluster train the same weights at every step",
                  within.name, within.name, within.sync_every(recipe)));
}

Traffic within_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       int members) {
  Traffic mean{.round_trips = 0};
  if (!recipe.sync.clustered()) return mean;
  const Method& within = find_method(name_of(recipe.sync.within));
  const Clusters clusters = clusters_of(recipe.sync, members);
  for (int cluster = 0; cluster < clusters.count; ++cluster) {
    const int size = clusters.size(cluster);
    const Traffic one = within.traffic(recipe, tensors, size);
    mean.sent_bytes += one.sent_bytes * size / members;
    mean.received_bytes += one.received_bytes * size / members;
    mean.round_trips = std::max(mean.round_trips, one.round_trips);
    mean.exact = mean.exact && one.exact;
  }
  return mean;
}

Traffic add_broadcast(const Traffic& of_round, const config::Recipe& recipe, double elements,
                      int members) {
  const Clusters clusters = clusters_of(recipe.sync, members);
  int sharing = 0;
  for (int cluster = 0; cluster < clusters.count; ++cluster) sharing += clusters.size(cluster) > 1;
  Traffic traffic = of_round;
  const double bytes = sizeof(float) * elements;
  traffic.sent_bytes += bytes * sharing / members;
  traffic.received_bytes += bytes * (members - clusters.count) / members;
  traffic.round_trips += sharing > 0 ? 1 : 0;
  return traffic;
}

Group across(const config::SyncSection& sync) {
  return sync.clustered() ? Group::kLeaders : Group::kAll;
}

Operation broadcast_of(const Operation& operation, uint64_t elements) {
  return {.group = Group::kCluster,
          .round = operation.round,
          .fragment = operation.fragment + 1,
          .bytes = sizeof(float) * elements,
          .due = operation.due};
}

Traffic with_speeds(const Traffic& mean, const config::Recipe& recipe, int members) {
  Traffic traffic = mean;
  if (recipe.sync.shares != config::RowShares::kSpeed || members == 1) return traffic;
  // After every round except the last two, whose speeds no later round could use.
  const int64_t sends = std::max<int64_t>((recipe.train.steps - 1) / speeds_every(recipe) - 1, 0);
  const double bytes =
      sizeof(float) * static_cast<double>(sends) / static_cast<double>(recipe.train.steps);
  traffic.sent_bytes += bytes;
  traffic.received_bytes += bytes * (members - 1);
  return traffic;
}

double within_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  if (!recipe.sync.clustered()) return optimizer_bytes(recipe, tensors) + clipping_bytes(recipe);
  const StateBytes state = find_method(name_of(recipe.sync.within)).state(recipe, tensors);
  return state.consensus + state.local;
}

double within_sums(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  if (!recipe.sync.clustered()) return 0;
  return find_method(name_of(recipe.sync.within)).state(recipe, tensors).sums;
}

}  // namespace thinwire::method
