// What methods whose workers train independently have in common: training inside clusters (recipe
// fields sync.within and sync.clusters) and rows divided by measured speed (sync.shares).
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/method.h"
#include "thinwire/method/operations.h"

namespace thinwire::method {

// How the workers of a run form clusters: the members of a cluster share a fast network and train
// as one; the clusters are joined by a thin wire (recipe fields sync.within and sync.clusters).

// Clusters of consecutive members, divided as evenly as possible.
struct Clusters {
  int members = 1;
  int count = 1;

  int first(int cluster) const {
    return static_cast<int>(int64_t{members} * cluster / count);  // also its leader
  }
  int size(int cluster) const { return first(cluster + 1) - first(cluster); }
  int of(int member) const {
    int cluster = 0;
    while (first(cluster + 1) <= member) ++cluster;
    return cluster;
  }
};

// If the recipe has no clusters, every member is a cluster of its own.
Clusters clusters_of(const config::SyncSection& sync, int members);

// Throws UsageError if the method inside clusters contradicts the rest of the recipe.
void check_within(const config::Recipe& recipe);

// Bytes of state that training inside clusters keeps besides the weights.
double within_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors);
// Bytes of the sums that the members of one cluster form; 0 without clusters.
double within_sums(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// What the average member sends and receives within its cluster in a training step; nothing without
// clusters.
Traffic within_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       int members);
// A round's traffic, plus that of passing its result, `elements` fp32 values, from the first worker
// of each cluster to the others.
Traffic add_broadcast(const Traffic& of_round, const config::Recipe& recipe, double elements,
                      int members);
// The group that exchanges in outer steps: all members, or the clusters' first members.
Group across(const config::SyncSection& sync);
// The operation that broadcasts the result of `operation` from each cluster's first worker to the
// others.
Operation broadcast_of(const Operation& operation, uint64_t elements);

// Adds the speeds that members send each other, if rows are divided by speed.
Traffic with_speeds(const Traffic& mean, const config::Recipe& recipe, int members);

}  // namespace thinwire::method
