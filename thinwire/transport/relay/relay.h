// Passes the connections of a site's clients on to a run's server, each over a connection of its
// own, and answers their requests for chunks itself where it can (relay_traffic.h). Clients log in
// to the run's server, which decides what each may do: the relay has no key of the run, and hands
// on the server's challenge and the client's signature. docs/security.md, "Relays".
//
// A connection beyond kMaxClients is closed at once. relay_session.h has the limits of one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/transport/relay/relay_session.h"
#include "thinwire/transport/relay/relay_traffic.h"

namespace thinwire::transport {

inline constexpr size_t kMaxClients = 200;

struct RelaySettings {
  std::string host = "0.0.0.0";  // to listen at
  int port = 0;                  // 0: a free one
  std::vector<ServerPlace> servers;
  std::string authorities;  // of the servers' certificates, in PEM; empty: those that this system
                            // trusts
  Certificate own;          // shown to clients
  std::string run;          // its courier name
  uint64_t cache_bytes = 1 << 30;
};

// What went through a relay so far: messages, without what TLS and TCP add.
struct RelayCounts {
  size_t clients = 0;  // connected now
  uint64_t from_server_bytes = 0;
  uint64_t to_server_bytes = 0;
  uint64_t to_clients_bytes = 0;
  uint64_t shared_chunks = 0;  // answered by the relay
  uint64_t shared_bytes = 0;
};

// Used by one thread.
class Relay final : private RelayWire {
 public:
  // Listens from here on. Throws Error, with the reason, if it cannot listen there, and for
  // certificates that OpenSSL does not take. Calls ignore_closed_pipes().
  explicit Relay(const RelaySettings& settings);
  ~Relay() override;
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int port() const { return port_; }
  // Passes on what can be, and waits up to `timeout_s` for more.
  void serve(double timeout_s);
  RelayCounts counts() const;
  // Why the last attempt to reach a server failed; empty: it did not.
  const std::string& problem() const { return problem_; }

 private:
  void to_client(uint64_t client, std::span<const uint8_t> bytes) override;
  void to_server(uint64_t client, std::span<const uint8_t> bytes) override;
  void listen();
  void accept_clients(double now);
  void end(uint64_t client);

  const RelaySettings settings_;
  const RelayContexts contexts_;
  ServerAddresses addresses_;
  int listener_ = -1;
  int port_ = 0;
  double accept_from_ = 0;  // not before, for want of descriptors
  RelayTraffic traffic_;
  std::map<uint64_t, std::unique_ptr<RelaySession>> sessions_;
  uint64_t last_client_ = 0;
  RelayCounts ended_;  // of connections that have ended
  std::string problem_;
};

}  // namespace thinwire::transport
