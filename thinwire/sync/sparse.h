// SparseLoCo: docs/methods/sparse.md.
#pragma once

#include <memory>

#include "thinwire/method/sparse.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_sparse(const Worker& worker, const method::SparseOptions& options);

}  // namespace thinwire::sync
