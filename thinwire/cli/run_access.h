// The options of commands that reach a run from outside.
#pragma once

#include <string>
#include <vector>

#include "thinwire/hosts/access.h"

namespace CLI {
class App;
}

namespace thinwire::cli {

struct AccessArguments {
  std::string address;
  std::string token;       // or where it is:
  std::string token_file;  // "-": standard input
  std::string ca;
};

// The arguments of commands that take part in a run from this machine, or check whether it could.
struct MachineArguments {
  AccessArguments access;
  std::vector<std::string> overrides;  // table.field=value
  double memory_bytes = 0;             // 0: no limit
};

// The positional HOST:PORT or folder, --token, --token-file and --ca.
void add_access(CLI::App& command, AccessArguments& arguments);
// The same, this machine's own recipe fields, and --memory.
void add_machine_arguments(CLI::App& command, MachineArguments& arguments);
// --wait, in seconds.
void add_wait(CLI::App& command, double& wait_s);
// Reads the token. Throws UsageError if there is none, and as hosts::parse_access does.
hosts::Access access_of(const AccessArguments& arguments);

}  // namespace thinwire::cli
