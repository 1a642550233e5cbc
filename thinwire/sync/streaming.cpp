#include "thinwire/sync/streaming.h"

#include "thinwire/sync/outer.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_streaming(const Worker& worker) {
  return make_outer(worker, worker.recipe.section<method::OuterOptions>("streaming"));
}

}  // namespace thinwire::sync
