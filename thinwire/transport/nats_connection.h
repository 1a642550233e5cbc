// A connection to a NATS server, as little as a courier needs of it. courier_nats.cpp has the only
// implementation over the client library, and nothing else includes that library's header.
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

namespace thinwire::transport {

// What a message to a NATS server may say beside its body.
struct NatsHeader {
  std::string name;
  std::string value;
};

struct NatsMessage {
  uint64_t subscription = 0;
  std::string subject;
  Bytes body;
  // All values of these headers: a message may hold several, of which the last is the server's own.
  std::vector<std::string> status, stream, sequence;
};

class NatsConnection {
 public:
  // Called by threads of the client library, several at once: to be quick, and to call nothing of
  // the connection. They are set before it is made and last until it is destroyed.
  struct Events {
    std::function<void(NatsMessage)> message;
    std::function<void(bool connected)> link;
    // What the server says that it does not allow, in its words.
    std::function<void(std::string)> refused;
    // The server does not let this side in any more, and the connection stays closed; why.
    std::function<void(std::string)> shut_out;
  };

  // The destructor returns once no event is under way.
  virtual ~NatsConnection() = default;

  // Publishing may wait for the network to take bytes. kRefused, kLostPeer.
  virtual Result<void> publish(const std::string& subject, const std::string& reply,
                               const std::vector<NatsHeader>& headers,
                               std::span<const uint8_t> body) = 0;
  // Returns the number that its messages carry; lasts over lost connections.
  virtual uint64_t subscribe(const std::string& subject) = 0;
  virtual void unsubscribe(uint64_t subscription) = 0;
};

// Whom to reach, and as whom.
struct NatsTarget {
  std::vector<std::string> servers;  // HOST:PORT
  std::string ca_pem;                // whose certificates count, in PEM
  Seed identity{};                   // of the user's NKey
  double timeout_s = 30;             // until a silent connection is given up
};

// Connects, over TLS 1.2 or later. kRefused: the server, or this side, does not accept the other;
// kLostPeer: nobody answers. Throws UsageError in a program that was built without libnats.
Result<std::unique_ptr<NatsConnection>> connect_nats(const NatsTarget& target,
                                                     NatsConnection::Events events);

}  // namespace thinwire::transport
