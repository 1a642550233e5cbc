// How the workers of a run form clusters: the members of one are joined by a fast network and train
// as one, the clusters are joined by a thin wire (recipe fields sync.within and sync.clusters).
#pragma once

#include <cstdint>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// Clusters of consecutive members, as even as can be.
struct Clusters {
  int members = 1;
  int count = 1;

  int first(int cluster) const {
    return static_cast<int>(int64_t{members} * cluster / count);  // its leader, too
  }
  int size(int cluster) const { return first(cluster + 1) - first(cluster); }
  int of(int member) const {
    int cluster = 0;
    while (first(cluster + 1) <= member) ++cluster;
    return cluster;
  }
};

// Every member alone where the recipe has no clusters.
inline Clusters clusters_of(const config::SyncSection& sync, int members) {
  return {members, sync.within == "none" ? members : static_cast<int>(sync.clusters)};
}

}  // namespace thinwire::method
