#include "stalling_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "thinwire/base/signature.h"

namespace thinwire::transport {
namespace {

constexpr Validity kAlways{0, 4'000'000'000};
constexpr int kByteMs = 20;  // of a handshake that goes on a byte at a time: five minutes of it
constexpr std::string_view kInfo =
    "INFO {\"server_id\":\"S\",\"version\":\"2.9.10\",\"proto\":1,\"headers\":true,"
    "\"max_payload\":1048576,\"tls_required\":true,\"nonce\":\"nonce\"}\r\n";
constexpr std::string_view kLongRecord("\x16\x03\x03\x40\x00", 5);  // the head of 16 KiB
constexpr std::string_view kBrokenRecord("\x17\x03\x03\x00\x18 this cannot be decrypted", 29);

struct Free {
  void operator()(BIO* memory) const { BIO_free(memory); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* connection) const { SSL_free(connection); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> reading(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Owned<SSL_CTX> context_of(const Certificate& certificate) {
  Owned<SSL_CTX> context(SSL_CTX_new(TLS_server_method()));
  const Owned<X509> own(
      PEM_read_bio_X509(reading(certificate.certificate).get(), nullptr, nullptr, nullptr));
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(reading(certificate.key).get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), own.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  return context;
}

void send_text(int client, std::string_view text) {
  (void)::send(client, text.data(), text.size(), MSG_NOSIGNAL);
}

// Whether the client has gone away, or does so within this time.
bool gone(int client, int ms) {
  pollfd waiting{.fd = client, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, ms) == 0) return false;
  std::array<char, 4096> said{};
  return ::recv(client, said.data(), said.size(), 0) <= 0;
}

void reset(int client) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  (void)::connect(client, &nowhere, sizeof(nowhere));
}

}  // namespace

StallingServer::StallingServer(Stall stall, int port)
    : stall_(stall),
      authority_(make_authority(kAlways)),
      certificate_(make_server_certificate(authority_, kAlways)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener_, SOMAXCONN), 0);
  EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

StallingServer::~StallingServer() {
  ends_ = true;
  stop_listening();
  ::shutdown(client_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

NatsTarget StallingServer::target(double timeout_s) const {
  return {{"127.0.0.1:" + std::to_string(port_)}, authority_.certificate, make_seed(), timeout_s};
}

void StallingServer::wait_for_client() const {
  while (client_ < 0) ::usleep(1000);
}

void StallingServer::stop_listening() { ::shutdown(listener_, SHUT_RDWR); }

void StallingServer::serve() {
  while (true) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    client_ = client;
    if (!ends_) serve_client(client);
    client_ = -1;
    ::close(client);
  }
}

void StallingServer::serve_client(int client) const {
  if (stall_ == Stall::kInFirstMessage) send_text(client, kInfo.substr(0, kInfo.size() / 2));
  if (stall_ > Stall::kInFirstMessage) send_text(client, kInfo);
  if (stall_ == Stall::kInHandshake) {
    if (gone(client, -1)) return;
    send_text(client, kLongRecord);
    while (!gone(client, kByteMs)) send_text(client, "x");
    return;
  }
  if (stall_ > Stall::kInHandshake) answer_over_tls(client);
  while (!gone(client, -1)) {
  }
}

void StallingServer::answer_over_tls(int client) const {
  const Owned<SSL_CTX> context = context_of(certificate_);
  const Owned<SSL> connection(SSL_new(context.get()));
  SSL_set_fd(connection.get(), client);
  if (SSL_accept(connection.get()) != 1) return;
  std::array<char, 4096> said{};
  if (SSL_read(connection.get(), said.data(), said.size()) <= 0) return;
  if (stall_ == Stall::kInAnswer) SSL_write(connection.get(), "PO", 2);
  if (stall_ >= Stall::kWithBrokenRecord) send_text(client, kBrokenRecord);
  if (stall_ == Stall::kWithBrokenRecordAndReset) reset(client);
}

}  // namespace thinwire::transport
