// How a command ends whose run is finished, or was stopped.
#pragma once

#include <string>

#include "thinwire/events/summary.h"

namespace thinwire::cli {

// On stdout. `folder`: run.dir, as the user named it.
void print_run_result(const events::Summary& summary, const std::string& folder);

// Throws what ends a command that was interrupted: Interrupted, or Error for a rank of an MPI job,
// which would look like one that crashed if it ended by a signal.
[[noreturn]] void report_stop(const std::string& message, bool is_rank);

}  // namespace thinwire::cli
