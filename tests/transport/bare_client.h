// A client of a NATS server that does only what it is told: it answers no PING and reads nothing by
// itself. Only POSIX sockets and OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "thinwire/transport/nats/courier_nats.h"

namespace thinwire::transport {

class BareClient {
 public:
  // Connects and begins TLS. `receive_bytes`: of its receive buffer; 0: the system's choice. Fails
  // the test if the server does not answer.
  explicit BareClient(const NatsTarget& target, int receive_bytes = 0);
  ~BareClient();
  BareClient(const BareClient&) = delete;
  BareClient& operator=(const BareClient&) = delete;

  // As the target's user; returns once the server has admitted it.
  void log_in();
  void subscribe(const std::string& subject);
  // Asks the server for a reply to its subscription, without waiting for it.
  void request(const std::string& subject, const std::string& reply);
  void send(std::string_view text);
  // Reads until this text; false: the server has closed, or says nothing for kNatsPatience.
  bool read_until(std::string_view text);

 private:
  struct Connection;
  const NatsTarget target_;
  std::string nonce_;
  std::string said_;  // by the server, and not yet looked at
  std::unique_ptr<Connection> connection_;
};

}  // namespace thinwire::transport
