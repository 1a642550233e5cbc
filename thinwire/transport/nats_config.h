// What a NATS server of a run is told: who may do what, and how much. Pure. docs/security.md says
// what each role is trusted with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"

namespace thinwire::transport {

enum class NatsRole : uint8_t {
  kCoordinator,  // makes and clears stores, appends records
  kMember,       // publishes under its own name, reads all of its run
  kNewcomer,     // says who it is under its own name, hears what is said to it
  kObserver,     // reads records and statements
};

struct NatsUser {
  std::string name;  // a courier name
  PublicKey key;
  NatsRole role = NatsRole::kMember;
  int64_t expires = 0;  // seconds since 1970; 0: never
  bool revoked = false;
};

// Of one server.
struct NatsLimits {
  int connections = 2000;
  int subscriptions = 100;           // of a connection
  double handshake_s = 5;            // for TLS, and again to say who one is
  double silence_s = 30;             // until a connection that does not answer is closed
  double write_s = 10;               // until one that does not take what it asked for is
  int64_t pending_bytes = 64 << 20;  // waiting for one connection
  int64_t store_bytes = int64_t{1} << 40;
};

struct NatsSettings {
  std::string host = "0.0.0.0";
  int port = 0;     // 0: the server picks one
  fs::path folder;  // of its files
  std::string run;  // a courier name
  std::vector<std::string> streams;
  NatsLimits limits = {};
};

// Files of the folder that a configuration names.
inline constexpr const char* kServerCertificateFile = "server.pem";
inline constexpr const char* kServerKeyFile = "server.key";
inline constexpr const char* kStoreFolder = "store";

// The configuration file. Users that are revoked, or have expired by `now`, are left out. Throws
// UsageError for names that cannot be.
std::string nats_configuration(const NatsSettings& settings, std::span<const NatsUser> users,
                               int64_t now);

}  // namespace thinwire::transport
