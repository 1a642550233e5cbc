// Streaming DiLoCo: docs/methods/streaming.md.
#pragma once

#include <memory>

#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_streaming(const Worker& worker);

}  // namespace thinwire::sync
