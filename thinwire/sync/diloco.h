// DiLoCo and its presets (docs/methods/diloco.md): workers, or clusters of them, train weights of
// their own; fragment by fragment the pseudo-gradients, the shared weights less a worker's own, are
// summed over all while the workers wait or train on.
#pragma once

#include <memory>

#include "thinwire/method/diloco.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_diloco(const Worker& worker, const method::DilocoOptions& options);

}  // namespace thinwire::sync
