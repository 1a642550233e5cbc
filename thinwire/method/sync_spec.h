// What the strategies of a run need to know of its recipe, and all that they are given of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "thinwire/config/fields.h"
#include "thinwire/config/update_choices.h"
#include "thinwire/method/optimizer.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

// An algorithm of sync/registry.cpp, and the options that it trains by.
struct AlgorithmSpec {
  std::string_view name;
  const config::Section& options;
};

struct SyncSpec {
  AlgorithmSpec method;
  // Of methods whose workers train apart: how those of a cluster, or one alone, train between two
  // outer steps.
  AlgorithmSpec within;
  int64_t clusters = 0;  // 0: each worker is alone
  int64_t steps = 1;     // training steps of the run
  double timeout_s = 0;  // of every wait for other workers
  OptimizerOptions optim;
  double clip = 0;  // largest gradient norm; 0: any
  config::ClipBy clip_by = config::ClipBy::kStep;
  config::UpdateTime update = config::UpdateTime::kStep;
};

// The recipe outlives the spec.
SyncSpec sync_spec(const config::Recipe& recipe);

}  // namespace thinwire::method
