// Passes a run of many hosts on to several machines of one site, over whose line each payload then
// comes once, as `thinwire relay` does (docs/hosts.md, "Behind a relay"). Target thinwire::run.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "thinwire/error.h"

namespace thinwire {

struct RelayingOptions {
  std::string address;                   // HOST:PORT of the run
  std::string token;                     // with which machines join it
  std::string listen = "0.0.0.0:0";      // HOST:PORT; port 0: the one it had, or a free one
  std::string reached_at = {};           // HOST:PORT for members; empty: as it listens
  std::filesystem::path folder = {};     // for its keys; empty: runs/relay-ID
  uint64_t cache_bytes = 1'000'000'000;  // of memory, for what several members fetch
  double wait_s = 0;                     // for the run's server, where it is down
  // Called once members may join, with what they need instead of the run's own. May be empty.
  std::function<void(const std::string& address, const std::string& token)> on_ready = {};
  // Called with what the command line would print, on the calling thread. Must not throw. May be
  // empty.
  std::function<void(std::string_view)> on_message = {};
  // Set from anywhere, it ends the call. Must be set to something.
  const std::atomic<bool>* stop = nullptr;
};

// Bytes that went through.
struct RelayedBytes {
  uint64_t from_run = 0;
  uint64_t to_run = 0;
  uint64_t to_members = 0;
};

// Relays until `stop` is set; the same call goes on at the same address, with the same token.
// Throws UsageError for a malformed address or token, for a run with a mailbox, which needs no
// relay, and without `stop`; Error if the run cannot be reached or does not accept the token.
RelayedBytes relay_run(const RelayingOptions& options);

}  // namespace thinwire
