// What the strategies of a run need from its recipe; they see nothing else of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "thinwire/base/aggregate.h"
#include "thinwire/config/fields.h"
#include "thinwire/config/sections.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

// An algorithm of sync/registry.cpp, and its options.
struct AlgorithmSpec {
  std::string_view name;
  const config::Section& options;
};

struct SyncSpec {
  AlgorithmSpec method;
  // For methods whose workers train independently: how the workers of a cluster, or a single
  // worker, train between two outer steps.
  AlgorithmSpec within;
  int64_t clusters = 0;  // 0: no clusters
  // How the contributions of all members, or of all clusters, become one. Within a cluster they are
  // averaged.
  AggregateOptions aggregate;
  int64_t steps = 1;     // training steps of the run
  double timeout_s = 0;  // for every wait for other workers
  OptimizerOptions optim;
  double clip = 0;  // largest gradient norm; 0: no clipping
  config::ClipBy clip_by = config::ClipBy::kStep;
  GradientStore gradients = GradientStore::kWhole;
  bool hides_sums = false;              // method/gradient_sums.h
  config::PrivacySection privacy = {};  // of what a member contributes
};

// The recipe must outlive the spec.
SyncSpec sync_spec(const config::Recipe& recipe, RunKind kind = RunKind::kJob);

}  // namespace thinwire::method
