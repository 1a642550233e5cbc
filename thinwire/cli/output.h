// Results go to stdout, and a result that did not get there is a failure, however late that shows.
// Where stdout's reader has gone (as with `| head`), the process ends by SIGPIPE, without a word,
// as is usual.
#pragma once

#include <functional>
#include <string_view>

namespace thinwire::cli {

// Does a command's work and returns its exit status. Throws what `command` throws, and Error with
// the system's reason when stdout did not take all that was printed, by whatever means.
int with_checked_output(const std::function<int()>& command);

// Shows text at once, for what comes bit by bit. Throws Error when stdout does not take it.
void write_output(std::string_view text);

}  // namespace thinwire::cli
