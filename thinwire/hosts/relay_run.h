// Passes a run on to several machines of one site, over whose line each payload then comes once:
// the library behind `thinwire relay`. docs/hosts.md, "Behind a relay"; docs/operations.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/transport/relay/relay.h"

namespace thinwire::hosts {

struct RelayOptions {
  Access access;                     // to the run
  std::string listen = "0.0.0.0:0";  // HOST:PORT; port 0: the one it had before, or a free one
  std::string address;               // HOST:PORT at which members reach it; empty: as it listens
  fs::path folder;                   // for its keys; empty: runs/relay-ID, as for join_run
  uint64_t cache_bytes = 1'000'000'000;  // of memory, for chunks
  // Written once members may join: as ServeOptions::ready_file (serve_run.h).
  fs::path ready_file;
  const std::atomic<bool>* stop = nullptr;  // set from outside: end
  events::Display display = {};
  std::function<void()> on_start = {};  // called just before `stop` is first checked
  // Called once members may join, with what they need. May be empty.
  std::function<void(const std::string& address, const std::string& token)> on_ready = {};
};

// Runs until `stop` is set; the same call with the same folder goes on at the same address, with
// the same tokens, however the earlier call ended. Returns what went through. Throws UsageError for
// a run with a mailbox and for malformed addresses; Error if the run cannot be reached or its
// server does not accept the token, unless the folder shows that it did before, if it cannot listen
// there, and if another relay uses the folder.
transport::RelayCounts relay_run(const RelayOptions& options);

}  // namespace thinwire::hosts
