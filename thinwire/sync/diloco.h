// DiLoCo and its presets (docs/methods/diloco.md): workers, or clusters of them, train their own
// weights. Fragment by fragment, the pseudo-gradients (the shared weights minus a worker's own) are
// summed over all, while the workers wait or continue training.
#pragma once

#include <memory>

#include "thinwire/method/diloco.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_diloco(const Worker& worker, const method::DilocoOptions& options);

}  // namespace thinwire::sync
