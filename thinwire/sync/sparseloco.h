// SparseLoCo: docs/methods/sparseloco.md.
#pragma once

#include <memory>

#include "thinwire/method/sparseloco.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_sparseloco(const Worker& worker,
                                          const method::SparseLocoOptions& options);

}  // namespace thinwire::sync
