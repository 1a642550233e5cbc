// Ctrl-C and its like for commands that end in order.
#pragma once

#include <atomic>

namespace thinwire::cli {

// From here on the first SIGINT or SIGTERM sets the flag that is returned, and says so; the second
// ends the process at once with exit status 128 + signal.
const std::atomic<bool>& catch_interrupts();

}  // namespace thinwire::cli
