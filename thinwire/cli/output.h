// Results go to stdout, and a result that could not be written there is a failure, even if that is
// noticed only at the end. If stdout's reader has gone (as with `| head`), the process ends
// silently by SIGPIPE, as is usual.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "thinwire/checkpoint/weights.h"
#include "thinwire/events/summary.h"

namespace thinwire::cli {

// Runs a command and returns its exit status. Throws what `command` throws, and Error with the
// system's reason if not everything printed, by whatever means, could be written to stdout.
int with_checked_output(const std::function<int()>& command);

// Shows text immediately, for output that is produced piece by piece. Throws Error if it cannot be
// written.
void write_output(std::string_view text);

// Progress of commands that read or write a model tensor by tensor and shut down cleanly when
// interrupted.

// The function it returns shows how far the work is. From its first call on, signals are caught;
// after one it throws Interrupted, so that nothing half-written remains.
checkpoint::TensorProgress show_tensors(const std::string& label);

// How a command ends whose run is finished, or was stopped.

// On stdout. `folder`: run.dir, as the user named it. `rows`: over which rows the losses are, if
// not over the run's: "over ...".
void print_run_result(const events::Summary& summary, const std::string& folder,
                      const std::string& rows = "");

// Throws what ends a command that was interrupted.
[[noreturn]] void report_stop(const std::string& message, bool is_rank);

}  // namespace thinwire::cli
