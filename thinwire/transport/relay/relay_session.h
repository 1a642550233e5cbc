// One client of a relay, and the connection to the run's server that belongs to it. The server is
// reached first, because its greeting, with the challenge that the client will sign, goes before
// the client's TLS.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/relay/nats_frames.h"
#include "thinwire/transport/relay/relay_traffic.h"

struct ssl_ctx_st;
struct ssl_st;

namespace thinwire::transport {

// One connection over TCP that begins in plain text and goes on over TLS, as NATS's do: the server
// greets, then the handshake follows. Nothing here waits; poll() says when to go on.

// What connections of one side have in common: TLS 1.2 or later. May be shared by connections of
// one thread. Throws Error if OpenSSL does not take a certificate.
class TlsContext {
 public:
  // For connections that this side accepts.
  static TlsContext of_server(const Certificate& own);
  // For connections to servers whose certificates one of these authorities has signed, in PEM;
  // empty: those that the system trusts.
  static TlsContext of_client(const std::string& authorities);
  // For connections that only ask which certificates a server presents.
  static TlsContext of_unverified_client();

  ssl_ctx_st* get() const { return context_.get(); }

 private:
  explicit TlsContext(ssl_ctx_st* context);
  std::shared_ptr<ssl_ctx_st> context_;
};

// Used by one thread.
class TlsStream {
 public:
  // Takes over a socket, which does not block from here on.
  explicit TlsStream(int socket);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Begins TLS once everything sent before has gone out. A client accepts only a certificate with
  // this name, or for this IP address.
  void accept_tls(const TlsContext& context);
  void connect_tls(const TlsContext& context, const std::string& name);

  int socket() const { return socket_; }
  // What to wait for, as poll() takes it.
  short events() const;
  // Whether to go on without waiting: bytes have arrived, but were not read while `reading` was
  // off.
  bool ready() const;
  // Sends and receives what goes now. False: the connection has ended; what had arrived before can
  // still be taken.
  bool advance();

  void send(std::span<const uint8_t> bytes);
  size_t unsent() const { return out_.size() - sent_; }
  bool handshaken() const { return handshaken_; }
  // The certificates that the other side has presented, DER.
  std::vector<Bytes> peer_certificates() const;
  // What has arrived since the last call.
  Bytes take() { return std::exchange(in_, {}); }
  // Off: nothing more is read, so the sender must wait.
  void set_reading(bool reading) { reading_ = reading; }
  // Bytes carried so far, those of TLS not counted.
  uint64_t sent_bytes() const { return sent_bytes_; }
  uint64_t received_bytes() const { return received_bytes_; }
  // Why it has ended; empty: the other side closed it, or it has not.
  const std::string& failure() const { return failure_; }

 private:
  void begin(const TlsContext& context);
  bool may_read() const;
  // How one operation went: on, it must wait, or the connection has ended.
  enum class Went : uint8_t { kOn, kWait, kEnd };
  Went judge(int result);
  Went judge_plain(ssize_t result);
  Went shake_hands();
  Went read_some();
  Went write_some();

  const int socket_;
  ssl_st* tls_ = nullptr;
  bool handshaken_ = false;
  bool wants_write_ = false;  // TLS does, beside what is to be sent
  bool reading_ = true;
  Bytes in_;
  Bytes out_;
  size_t sent_ = 0;        // of out_
  size_t plain_left_ = 0;  // of out_, to be sent before TLS begins
  uint64_t sent_bytes_ = 0;
  uint64_t received_bytes_ = 0;
  std::string failure_;
};

// The addresses of a run's servers, looked up in the background, so that a name server that does
// not answer holds nothing up.
struct ServerPlace {
  std::string host;
  int port = 0;
  std::string certificate_name;  // the name, or IP address, in its certificate
};

struct ServerAddress {
  sockaddr_storage address{};
  socklen_t bytes = 0;
  std::string certificate_name;
};

// Used by one thread.
class ServerAddresses {
 public:
  // Looks them up.
  explicit ServerAddresses(std::vector<ServerPlace> places);
  // Waits for a look-up that has begun.
  ~ServerAddresses() = default;
  ServerAddresses(const ServerAddresses&) = delete;
  ServerAddresses& operator=(const ServerAddresses&) = delete;

  // In the order of the places; empty while none is known.
  const std::vector<ServerAddress>& known();
  // Begins to look them up again, unless it is doing so. The known ones remain until then, and if
  // nothing is found.
  void refresh();

 private:
  const std::vector<ServerPlace> places_;
  std::vector<ServerAddress> known_;
  std::future<std::vector<ServerAddress>> looked_up_;
};

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
