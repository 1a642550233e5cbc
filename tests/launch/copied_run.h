// Runs as they were at an earlier step.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/checkpoint.h"

namespace thinwire::launch {

// Copies the run in `from` as it was after `step`; it must have a checkpoint after every step.
inline void copy_run(const fs::path& from, const fs::path& to, int64_t step) {
  fs::create_directories(to / "checkpoints");
  fs::copy(from / "events.jsonl", to);
  fs::copy(from / "recipe.toml", to);
  const std::string name = checkpoint::checkpoint_name(static_cast<uint64_t>(step));
  fs::copy(from / "checkpoints" / name, to / "checkpoints" / name);
}

}  // namespace thinwire::launch
