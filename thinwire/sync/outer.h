// The strategy of the methods whose workers train apart and exchange, every so many steps, how far
// they came: local SGD, DiLoCo, Streaming DiLoCo (docs/methods/diloco.md). Workers, or clusters of
// them, train weights of their own; fragment by fragment their difference from the shared weights
// is summed over all, while they wait or train on.
#pragma once

#include <memory>

#include "thinwire/method/outer.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

// The options outlive the strategy.
std::unique_ptr<Strategy> make_outer(const Worker& worker, const method::OuterOptions& options);

}  // namespace thinwire::sync
