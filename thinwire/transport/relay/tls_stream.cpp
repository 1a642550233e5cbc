#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/ip_address.h"
#include "thinwire/transport/relay/relay_session.h"

namespace thinwire::transport {
namespace {

constexpr size_t kReadBytes = 16 << 10;
// The most bytes that are read before somebody takes them.
constexpr size_t kMostUntaken = 256 << 10;

struct Release {
  void operator()(BIO* memory) const { BIO_free(memory); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Held = std::unique_ptr<T, Release>;

std::string reason_of_tls() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "OpenSSL gives no reason" : reason;
}

void require_tls(bool done, const char* what) {
  if (!done) throw Error(fmt::format("OpenSSL cannot {}: {}", what, reason_of_tls()));
}

Held<BIO> memory_of(const std::string& text) {
  return Held<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

TlsContext::TlsContext(ssl_ctx_st* context) : context_(context, SSL_CTX_free) {
  require_tls(context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1,
              "make a context");
  // Clients end without saying so; messages of the protocol say where they end.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

TlsContext TlsContext::of_server(const Certificate& own) {
  TlsContext made(SSL_CTX_new(TLS_server_method()));
  const Held<BIO> text = memory_of(own.certificate);
  const Held<X509> certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  const Held<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(memory_of(own.key).get(), nullptr, nullptr, nullptr));
  require_tls(certificate && key && SSL_CTX_use_certificate(made.get(), certificate.get()) == 1 &&
                  SSL_CTX_use_PrivateKey(made.get(), key.get()) == 1,
              "take the relay's certificate");
  while (const Held<X509> authority{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    require_tls(SSL_CTX_add1_chain_cert(made.get(), authority.get()) == 1, "present an authority");
  }
  ERR_clear_error();  // reading ends with one
  return made;
}

TlsContext TlsContext::of_unverified_client() {
  return TlsContext(SSL_CTX_new(TLS_client_method()));
}

TlsContext TlsContext::of_client(const std::string& authorities) {
  TlsContext made(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
  if (authorities.empty()) {
    require_tls(SSL_CTX_set_default_verify_paths(made.get()) == 1,
                "find the authorities that this system trusts");
    return made;
  }
  const Held<BIO> text = memory_of(authorities);
  int count = 0;
  while (const Held<X509> authority{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE* const store = SSL_CTX_get_cert_store(made.get());
    require_tls(X509_STORE_add_cert(store, authority.get()) == 1, "take an authority");
    ++count;
  }
  require_tls(count > 0, "read the authority's certificate");
  ERR_clear_error();  // reading ends with one
  return made;
}

TlsStream::TlsStream(int socket) : socket_(socket) {
  if (socket_ >= 0) (void)::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
}

TlsStream::~TlsStream() {
  if (tls_ != nullptr && handshaken_ && failure_.empty()) {
    ERR_clear_error();
    (void)SSL_shutdown(tls_);  // says that the end is meant
  }
  SSL_free(tls_);
  if (socket_ >= 0) ::close(socket_);
}

void TlsStream::begin(const TlsContext& context) {
  plain_left_ = unsent();
  tls_ = SSL_new(context.get());
  require_tls(tls_ != nullptr && SSL_set_fd(tls_, socket_) == 1, "begin a connection");
}

void TlsStream::accept_tls(const TlsContext& context) {
  begin(context);
  SSL_set_accept_state(tls_);
}

void TlsStream::connect_tls(const TlsContext& context, const std::string& name) {
  begin(context);
  SSL_set_connect_state(tls_);
  const bool named = is_ip_address(name)
                         ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_), name.c_str()) == 1
                         : SSL_set1_host(tls_, name.c_str()) == 1 &&
                               SSL_set_tlsext_host_name(tls_, name.c_str()) == 1;
  require_tls(named, "check the server's name");
}

std::vector<Bytes> TlsStream::peer_certificates() const {
  std::vector<Bytes> all;
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(tls_);
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    unsigned char* der = nullptr;
    const int size = i2d_X509(sk_X509_value(chain, i), &der);
    if (size <= 0) continue;
    all.emplace_back(der, der + size);
    OPENSSL_free(der);
  }
  return all;
}

bool TlsStream::may_read() const { return reading_ && in_.size() < kMostUntaken; }

short TlsStream::events() const {
  if (plain_left_ > 0) return POLLOUT;
  const bool shaking = tls_ != nullptr && !handshaken_;
  int events = 0;
  if (shaking || may_read()) events |= POLLIN;
  if (wants_write_ || (!shaking && unsent() > 0)) events |= POLLOUT;
  return static_cast<short>(events);
}

bool TlsStream::ready() const { return may_read() && handshaken_ && SSL_has_pending(tls_) == 1; }

bool TlsStream::advance() {
  wants_write_ = false;
  Went went = Went::kOn;
  while (plain_left_ > 0 && went == Went::kOn) went = write_some();
  if (went == Went::kOn && tls_ != nullptr && !handshaken_) went = shake_hands();
  if (went != Went::kOn) return went == Went::kWait;
  while (unsent() > 0 && went == Went::kOn) went = write_some();
  Went read = Went::kOn;
  while (may_read() && read == Went::kOn) read = read_some();
  return went != Went::kEnd && read != Went::kEnd;
}

TlsStream::Went TlsStream::judge(int result) {
  if (result > 0) return Went::kOn;
  switch (SSL_get_error(tls_, result)) {
    case SSL_ERROR_WANT_READ:
      return Went::kWait;
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      return Went::kWait;
    case SSL_ERROR_ZERO_RETURN:
      return Went::kEnd;
    case SSL_ERROR_SYSCALL:
      failure_ = errno == 0 ? "it was cut off" : std::strerror(errno);
      return Went::kEnd;
    default:
      failure_ = reason_of_tls();
      return Went::kEnd;
  }
}

TlsStream::Went TlsStream::judge_plain(ssize_t result) {
  if (result > 0) return Went::kOn;
  if (result < 0 && must_wait()) return Went::kWait;
  if (result < 0) failure_ = std::strerror(errno);
  return Went::kEnd;
}

TlsStream::Went TlsStream::shake_hands() {
  ERR_clear_error();
  errno = 0;
  const Went went = judge(SSL_do_handshake(tls_));
  handshaken_ = went == Went::kOn;
  return went;
}

TlsStream::Went TlsStream::read_some() {
  std::array<uint8_t, kReadBytes> buffer;
  ERR_clear_error();
  errno = 0;
  ssize_t got = 0;
  Went went = Went::kOn;
  if (tls_ != nullptr) {
    got = SSL_read(tls_, buffer.data(), static_cast<int>(buffer.size()));
    went = judge(static_cast<int>(got));
  } else {
    got = ::recv(socket_, buffer.data(), buffer.size(), 0);
    went = judge_plain(got);
  }
  if (went != Went::kOn) return went;
  in_.insert(in_.end(), buffer.begin(), buffer.begin() + got);
  received_bytes_ += static_cast<uint64_t>(got);
  return went;
}

TlsStream::Went TlsStream::write_some() {
  const size_t most = plain_left_ > 0 ? plain_left_ : unsent();
  const uint8_t* const bytes = out_.data() + sent_;
  ERR_clear_error();
  errno = 0;
  ssize_t put = 0;
  Went went = Went::kOn;
  if (tls_ != nullptr && plain_left_ == 0) {
    put = SSL_write(tls_, bytes, static_cast<int>(std::min<size_t>(most, INT_MAX)));
    went = judge(static_cast<int>(put));
  } else {
    put = ::send(socket_, bytes, most, MSG_NOSIGNAL);
    went = judge_plain(put);
  }
  if (went != Went::kOn) return went;
  sent_ += static_cast<size_t>(put);
  sent_bytes_ += static_cast<uint64_t>(put);
  plain_left_ -= std::min(plain_left_, static_cast<size_t>(put));
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  return went;
}

void TlsStream::send(std::span<const uint8_t> bytes) {
  if (sent_ > out_.size() / 2) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

}  // namespace thinwire::transport
