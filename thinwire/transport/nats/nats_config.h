// The configuration of a run's NATS server: who may do what, and how much. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::transport {

// The limits of one server.
struct NatsLimits {
  int connections = 2000;            // in all
  int subscriptions = 100;           // per connection
  double handshake_s = 5;            // for TLS, and as long again for authentication
  double silence_s = 30;             // after which a connection that does not answer is closed
  double write_s = 10;               // after which a connection that does not read is closed
  int64_t pending_bytes = 64 << 20;  // queued for one connection
  int64_t store_bytes = int64_t{1} << 40;
  uint64_t log_bytes = 1 << 20;  // of its log, beside as many of what was cut off
};

// How many connections a server that may open so many files can take and still write what it
// stores: it needs some files for its store, however many strangers connect.
int connections_within(uint64_t files);

struct NatsSettings {
  std::string host = "0.0.0.0";
  int port = 0;     // 0: the server picks one
  fs::path folder;  // for its files
  std::string run;  // a courier name
  std::vector<std::string> streams;
  NatsLimits limits = {};
};

// Files of the folder, as named in a configuration.
inline constexpr const char* kServerCertificateFile = "server.pem";
inline constexpr const char* kServerKeyFile = "server.key";
inline constexpr const char* kStoreFolder = "store";

// The configuration file. Users that are revoked or have expired by `now` are left out. Throws
// UsageError for invalid names.
std::string nats_configuration(const NatsSettings& settings, std::span<const NatsUser> users,
                               int64_t now);

}  // namespace thinwire::transport
