// Going on from a checkpoint: whether it is sound, and whether it is of this run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"

namespace thinwire::checkpoint {

// The newest checkpoint older than `folder` that can be read; none when there is no such.
std::optional<fs::path> sound_before(const fs::path& folder);

// Opens a run's newest checkpoint. Where it is damaged, the Error says so, names the newest older
// one that is sound, and how to go on from there.
std::unique_ptr<CheckpointReader> open_newest(const fs::path& folder);

struct ResumeFacts {
  std::vector<std::string> notices;  // what is another from here on, a sentence each
  int64_t ended_at = 0;              // steps after which the run had ended before; 0: never
};

// Throws UsageError, naming what differs and the ways out, when the checkpoint is of a run of
// another recipe (resume_rules.h), another vocabulary or other data, or of a later step than the
// recipe has; and Error when a later program wrote it.
ResumeFacts check_resume(const CheckpointReader& checkpoint, const RunSources& now);

}  // namespace thinwire::checkpoint
