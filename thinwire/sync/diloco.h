// DiLoCo: docs/methods/diloco.md.
#pragma once

#include <memory>

#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_diloco(const Worker& worker);

}  // namespace thinwire::sync
