// One client of a relay, and the connection to the run's server that belongs to it. The server is
// reached first, because its greeting, with the challenge that the client will sign, goes before
// the client's TLS.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/transport/relay/nats_frames.h"
#include "thinwire/transport/relay/relay_traffic.h"
#include "thinwire/transport/relay/server_addresses.h"
#include "thinwire/transport/relay/tls_stream.h"

namespace thinwire::transport {

// Until both sides have shaken hands; from there on the server's own limits hold.
inline constexpr double kConnectSeconds = 20;
// One side waits while the other has yet to take so many bytes.
inline constexpr size_t kMaxUnsent = 512 << 10;

struct RelayContexts {
  TlsContext clients;
  TlsContext servers;
};

// Used by one thread. Times are those of monotonic_seconds().
class RelaySession {
 public:
  // Takes over the client's socket and begins to connect to the first of the servers that answers.
  // The contexts must outlive it.
  RelaySession(uint64_t number, int socket, std::vector<ServerAddress> servers,
               const RelayContexts& contexts, double now);
  ~RelaySession();
  RelaySession(const RelaySession&) = delete;
  RelaySession& operator=(const RelaySession&) = delete;

  // Adds what it waits for.
  void add_to(std::vector<pollfd>& polled);
  // Whether advance() has something to do, after poll() has filled this in.
  bool has_work(const std::vector<pollfd>& polled, double now);
  // Does not have to wait: bytes have arrived already.
  bool ready() const;
  // Moves what can be moved, through `traffic`.
  void advance(RelayTraffic& traffic, double now);
  bool over() const { return state_ == State::kOver; }

  void to_client(std::span<const uint8_t> bytes) { client_.send(bytes); }
  void to_server(std::span<const uint8_t> bytes) { server_->send(bytes); }

  const TlsStream& client() const { return client_; }
  // Null until it is reached.
  const TlsStream* server() const { return server_.get(); }
  // Whether a server was reached that is one of the run's.
  bool reached() const { return server_ && server_->handshaken(); }
  // Why not; empty: it was, or that is not known yet.
  const std::string& problem() const { return problem_; }

 private:
  enum class State : uint8_t { kConnecting, kGreeting, kOpen, kClosing, kOver };

  void connect_next(double now);
  void finish_connecting(double now);
  void give_up(const std::string& problem);
  void take_greeting(RelayTraffic& traffic);
  void exchange(RelayTraffic& traffic, double now);
  bool pass_on(RelayTraffic& traffic);
  bool pass_client(RelayTraffic& traffic);
  bool pass_server(RelayTraffic& traffic);
  bool both_keep_up() const;
  void finish(double now);
  bool late(double now) const { return now >= deadline_; }

  const uint64_t number_;
  const std::vector<ServerAddress> servers_;
  const RelayContexts& contexts_;
  State state_ = State::kConnecting;
  double deadline_;
  size_t next_server_ = 0;
  int connecting_ = -1;  // a socket
  double attempt_until_ = 0;
  std::string problem_ = "no address is known";
  TlsStream client_;
  std::unique_ptr<TlsStream> server_;
  NatsFrameReader client_frames_;
  NatsFrameReader server_frames_;
  bool client_lives_ = true;
  bool server_lives_ = true;
  size_t polled_at_ = 0;  // in what add_to filled
};

}  // namespace thinwire::transport
