// The options of commands that reach a run from outside.
#pragma once

#include <string>

#include "thinwire/hosts/access.h"

namespace CLI {
class App;
}

namespace thinwire::cli {

struct AccessArguments {
  std::string address;
  std::string token;
  std::string ca;
};

// The positional HOST:PORT, --token and --ca.
void add_access(CLI::App& command, AccessArguments& arguments);
// Throws UsageError as hosts::parse_access does.
hosts::Access access_of(const AccessArguments& arguments);

}  // namespace thinwire::cli
