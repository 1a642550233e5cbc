#include "thinwire/cli/command.h"

namespace thinwire::cli {

void add_commands(CLI::App&) {}

}  // namespace thinwire::cli
