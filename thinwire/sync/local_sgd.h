// Local SGD: docs/methods/local_sgd.md.
#pragma once

#include <memory>

#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_local_sgd(const Worker& worker);

}  // namespace thinwire::sync
