// One connection over TCP that begins in plain text and goes on over TLS, as NATS's do: the server
// greets, then the handshake follows. Nothing here waits; poll() says when to go on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/transport/nats/certificates.h"

struct ssl_ctx_st;
struct ssl_st;

namespace thinwire::transport {

// What connections of one side have in common: TLS 1.2 or later. May be shared by connections of
// one thread. Throws Error if OpenSSL does not take a certificate.
class TlsContext {
 public:
  // For connections that this side accepts.
  static TlsContext of_server(const Certificate& own);
  // For connections to servers whose certificates one of these authorities has signed, in PEM;
  // empty: those that the system trusts.
  static TlsContext of_client(const std::string& authorities);

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
  // Of poll(): what to wait for.
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
  // Of one operation: it went on, it must wait, or the connection has ended.
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

}  // namespace thinwire::transport
