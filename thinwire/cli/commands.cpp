#include "thinwire/cli/command.h"

namespace thinwire::cli {

void add_commands(CLI::App& app) {
  add_export(app);
  add_import(app);
}

}  // namespace thinwire::cli
