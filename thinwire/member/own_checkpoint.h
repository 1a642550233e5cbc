// A member's own newest checkpoint, from which it may continue after its process ended.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/member/place.h"

namespace thinwire::member {

struct OwnCheckpoint {
  std::unique_ptr<checkpoint::CheckpointReader> reader;
  Place place;
};

// The newest checkpoint in a folder, if it is of this run and of at most `steps` steps, and holds
// its place in the ledger. `notify` gets a message about a damaged one.
std::optional<OwnCheckpoint> open_own_checkpoint(
    const fs::path& checkpoints, uint64_t run, int64_t steps,
    const std::function<void(const std::string& text)>& notify);

// The evaluations after `step` steps that a log already has.
std::set<std::string> evaluated_at(const fs::path& log, int64_t step);

}  // namespace thinwire::member
