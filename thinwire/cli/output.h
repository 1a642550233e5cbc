// Results go to stdout, and a result that could not be written there is a failure, even if that is
// noticed only at the end. If stdout's reader has gone (as with `| head`), the process ends
// silently by SIGPIPE, as is usual.
#pragma once

#include <functional>
#include <string_view>

namespace thinwire::cli {

// Runs a command and returns its exit status. Throws what `command` throws, and Error with the
// system's reason if not everything printed, by whatever means, could be written to stdout.
int with_checked_output(const std::function<int()>& command);

// Shows text immediately, for output that is produced piece by piece. Throws Error if it cannot be
// written.
void write_output(std::string_view text);

}  // namespace thinwire::cli
