#include "thinwire/checkpoints.h"

#include "thinwire/base/digest.h"
#include "thinwire/checkpoint/checkpoint.h"

namespace thinwire {

std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder) {
  return checkpoint::list_checkpoints(run_folder / "checkpoints");
}

CheckpointFacts read_checkpoint(const std::filesystem::path& folder) {
  const checkpoint::CheckpointReader reader(folder);
  const checkpoint::CheckpointMeta& meta = reader.meta();
  return {.step = meta.step,
          .tokens = meta.tokens,
          .method = meta.method,
          .workers = meta.workers,
          .digest = to_hex(reader.digest())};
}

}  // namespace thinwire
