// How the workers of a run form clusters: the members of a cluster share a fast network and train
// as one; the clusters are joined by a thin wire (recipe fields sync.within and sync.clusters).
#pragma once

#include <cstdint>

namespace thinwire::method {

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

}  // namespace thinwire::method
