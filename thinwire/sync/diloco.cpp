#include "thinwire/sync/diloco.h"

#include "thinwire/sync/outer.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_diloco(const Worker& worker) {
  return make_outer(worker, worker.recipe.section<method::OuterOptions>("diloco"));
}

}  // namespace thinwire::sync
