#include "thinwire/relaying.h"

#include "thinwire/hosts/access.h"
#include "thinwire/hosts/relay_run.h"

namespace thinwire {

RelayedBytes relay_run(const RelayingOptions& options) {
  if (options.stop == nullptr) throw UsageError("RelayingOptions::stop must be set");
  const events::MessageSink tell = [&](std::string_view line) {
    if (options.on_message) options.on_message(line);
  };
  hosts::RelayOptions relay;
  relay.access = hosts::parse_access(options.address, options.token, {});
  relay.access.wait_s = options.wait_s;
  relay.listen = options.listen;
  relay.address = options.reached_at;
  relay.folder = options.folder;
  relay.cache_bytes = options.cache_bytes;
  relay.on_ready = options.on_ready;
  relay.stop = options.stop;
  relay.display = {.message = tell, .needed = tell};
  const transport::RelayCounts counts = hosts::relay_run(relay);
  return {.from_run = counts.from_server_bytes,
          .to_run = counts.to_server_bytes,
          .to_members = counts.to_clients_bytes};
}

}  // namespace thinwire
