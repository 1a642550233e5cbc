// A connection to a NATS server, reduced to what a courier needs. courier_nats.cpp has the only
// implementation over the client library; nothing else includes that library's header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {

// A header of a message to a NATS server, sent along with its body.
struct NatsHeader {
  std::string name;
  std::string value;
};

struct NatsMessage {
  uint64_t subscription = 0;
  std::string subject;
  Bytes body;
  // All values of these headers. A message may have several; the last one is the server's own.
  std::vector<std::string> status, stream, sequence;
};

class NatsConnection {
 public:
  // Called by threads of the client library, one at a time. They must be quick and must not call
  // the connection. They are set before the connection is made and last until it is destroyed.
  struct Events {
    std::function<void(NatsMessage)> message;
    std::function<void(bool connected)> link;
    // The server refused something; its own message.
    std::function<void(std::string)> refused;
    // The server no longer admits this client, and the connection stays closed; the reason.
    std::function<void(std::string)> denied;
  };

  // The destructor returns once no event is running.
  virtual ~NatsConnection() = default;

  // May wait for the network to accept the bytes. kRefused, kLostPeer.
  virtual Result<void> publish(const std::string& subject, const std::string& reply,
                               const std::vector<NatsHeader>& headers,
                               std::span<const uint8_t> body) = 0;
  // Returns the number that its messages carry. A subscription survives lost connections.
  virtual uint64_t subscribe(const std::string& subject) = 0;
  virtual void unsubscribe(uint64_t subscription) = 0;
};

// Which servers to reach, and as whom.
struct NatsTarget {
  std::vector<std::string> servers;  // HOST:PORT
  std::string ca_pem;  // an authority whose certificates are accepted, in PEM; empty: the system's
  Seed identity{};     // seed of the user's NKey
  // After which each of the two halves of making a connection is given up: until the server's first
  // message, and from there on. With several servers it is half of this, because another one may
  // answer.
  double timeout_s = 30;
  // After which a silent connection is closed; likewise. 0: timeout_s.
  double silence_s = 0;
  // The user's JWT (nats_jwt.h); empty: the servers know the key.
  std::string jwt = {};
  // The name in the servers' certificates; empty: that of the address.
  std::string server_name = kServerName;
  // Try `servers` in this order, and no others that these name; otherwise all, in any order.
  bool only_these = false;
};

// Connects, over TLS 1.2 or later. kRefused: one of the two sides does not accept the other;
// kLostPeer: no answer in time. Calls ignore_closed_pipes(). Throws UsageError in a program that
// was built without libnats.
Result<std::unique_ptr<NatsConnection>> connect_nats(const NatsTarget& target,
                                                     NatsConnection::Events events);

}  // namespace thinwire::transport
