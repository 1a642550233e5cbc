#include "thinwire/hosts/ready.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire::hosts {

void tell_ready(const ServeOptions& options, const config::Recipe& recipe, const Entrance& entrance,
                const std::string& token) {
  const std::string address = entrance.address();
  if (!options.ready_file.empty()) {
    const fs::path ca = entrance.authority_file(fs::path(recipe.run.dir) / kServerFolder);
    const nlohmann::json ready = {{"address", address},
                                  {"token", token},
                                  {"ca", ca.empty() ? "" : fs::absolute(ca).string()}};
    write_file(options.ready_file, print_json(ready, {.indent = 2}) + "\n");
  }
  if (options.on_ready) options.on_ready(address, token);
  const bool external = method::is_external(recipe);
  const events::Display& display = options.display;
  display.message(fmt::format(
      "{} is served at {}; members join with{}", recipe.run.name, entrance.served_at(),
      external ? " a program that has the model, the address and the token" : entrance.hint()));
  const std::string command = external
                                  ? fmt::format("  {} {}", address, token)
                                  : fmt::format("  thinwire join {} --token {}", address, token);
  options.ready_file.empty() ? display.needed(command) : display.message(command);
}

}  // namespace thinwire::hosts
