// Resuming from a checkpoint: whether it is intact, and whether it belongs to this run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"

namespace thinwire::checkpoint {

// The newest intact checkpoint older than `folder`, if there is one.
std::optional<fs::path> newest_intact_before(const fs::path& folder);

// Opens a run's newest checkpoint. If it is damaged, the Error says so, names the newest intact
// older one, and says how to resume from it.
std::unique_ptr<CheckpointReader> open_newest(const fs::path& folder);

struct ResumeFacts {
  std::vector<std::string> notices;  // what differs from here on, a sentence each
  int64_t ended_at = 0;              // steps after which the run ended earlier; 0: never
};

// Throws UsageError, naming what differs and what can be done, when the checkpoint is from a run
// with a different recipe (resume_rules.h), vocabulary or data, or from a later step than the
// recipe has; and Error when a later program wrote it.
ResumeFacts check_resume(const CheckpointReader& checkpoint, const RunSources& now);

}  // namespace thinwire::checkpoint
