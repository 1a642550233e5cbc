// The log of a run, which may still go on: its steps, evaluations and messages. Target
// thinwire::run.
#pragma once

#include <filesystem>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/events.h"

namespace thinwire {

struct RunHistory {
  std::vector<events::StepEvent> steps;
  std::vector<events::EvalEvent> evaluations;  // losses and scores
  std::vector<events::MessageEvent> messages;
};

// Reads the log in the folder of a run or of a member. A line that is just being written is left
// out. Throws Error, naming the file and the line, if there is no log or it is damaged.
RunHistory read_run_history(const std::filesystem::path& run_folder);

}  // namespace thinwire
