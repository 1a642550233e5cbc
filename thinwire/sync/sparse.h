// SparseLoCo: docs/methods/sparse.md.
#pragma once

#include <memory>

#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_sparse(const Worker& worker);

}  // namespace thinwire::sync
