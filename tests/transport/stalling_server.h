// A server that takes connections and stops answering at some point. Only POSIX sockets and
// OpenSSL.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

enum class Stall {
  kAtOnce,
  kInFirstMessage,
  kAtHandshake,
  kInHandshake,  // goes on with it, a byte at a time, but never ends it
  kAfterHandshake,
  kInAnswer,
  kWithBrokenRecord,  // sends what is no TLS instead of its answer
  kWithBrokenRecordAndReset,
};

// Serves one client after another, until each goes away.
class StallingServer {
 public:
  // A port of 0 means a free one.
  explicit StallingServer(Stall stall, int port = 0);
  ~StallingServer();
  StallingServer(const StallingServer&) = delete;
  StallingServer& operator=(const StallingServer&) = delete;

  int port() const { return port_; }
  // For a client that believes its certificate.
  NatsTarget target(double timeout_s) const;
  // Returns once a client waits for it.
  void wait_for_client() const;
  // Takes no more clients; who is there goes on waiting.
  void stop_listening();

 private:
  void serve();
  void serve_client(int client) const;
  void answer_over_tls(int client) const;

  const Stall stall_;
  const Certificate authority_;
  const Certificate certificate_;
  int listener_;
  int port_ = 0;
  std::atomic<int> client_ = -1;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace thinwire::transport
