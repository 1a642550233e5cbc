#include "thinwire/sync/local_sgd.h"

#include "thinwire/sync/outer.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_local_sgd(const Worker& worker) {
  return make_outer(worker, worker.recipe.section<method::OuterOptions>("local_sgd"));
}

}  // namespace thinwire::sync
