#include "bare_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "nats_run.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

int open_connection(const std::string& server, int receive_bytes) {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_bytes > 0) {
    ::setsockopt(file, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  }
  const timeval patience{.tv_sec = static_cast<time_t>(kNatsPatience), .tv_usec = 0};
  ::setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(server.substr(server.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return file;
}

// The server's first line, which is not encrypted.
std::string read_line(int file) {
  std::string line;
  char next = 0;
  while (!line.ends_with(kLineEnd) && ::recv(file, &next, 1, 0) == 1) line += next;
  return line;
}

}  // namespace

struct BareClient::Connection {
  explicit Connection(int opened) : file(opened), context(SSL_CTX_new(TLS_client_method())) {
    tls = SSL_new(context);
    SSL_set_fd(tls, file);
  }
  ~Connection() {
    SSL_free(tls);
    SSL_CTX_free(context);
    ::close(file);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int file;
  SSL_CTX* context;
  SSL* tls;
};

BareClient::BareClient(const NatsTarget& target, int receive_bytes)
    : target_(target),
      connection_(
          std::make_unique<Connection>(open_connection(target.servers.front(), receive_bytes))) {
  const std::string first = read_line(connection_->file);
  const auto info = try_parse_json<nlohmann::json>(first.substr(std::min<size_t>(5, first.size())));
  EXPECT_TRUE(info.is_object()) << first;
  if (info.is_object()) nonce_ = info.value("nonce", "");
  EXPECT_EQ(SSL_connect(connection_->tls), 1);
}

BareClient::~BareClient() = default;

void BareClient::log_in() {
  const auto signer = make_signer(target_.identity);
  const nlohmann::json options = {{"nkey", encode_public_key(NKeyKind::kUser, signer->key())},
                                  {"sig", encode_base64url(signer->sign(as_bytes(nonce_)).bytes)},
                                  {"verbose", false},
                                  {"pedantic", false},
                                  {"protocol", 1},
                                  {"headers", true},
                                  {"lang", "bare"},
                                  {"version", "1"}};
  send(fmt::format("CONNECT {}\r\nPING\r\n", print_json(options)));
  EXPECT_TRUE(read_until("PONG\r\n")) << said_;
}

void BareClient::subscribe(const std::string& subject) {
  send(fmt::format("SUB {} 1\r\nPING\r\n", subject));
  EXPECT_TRUE(read_until("PONG\r\n")) << said_;
}

void BareClient::request(const std::string& subject, const std::string& reply) {
  send(fmt::format("PUB {} {} 0\r\n\r\n", subject, reply));
}

void BareClient::send(std::string_view text) {
  (void)SSL_write(connection_->tls, text.data(), static_cast<int>(text.size()));
}

bool BareClient::read_until(std::string_view text) {
  std::array<char, 4096> buffer{};
  while (said_.find(text) == said_.npos) {
    const int got = SSL_read(connection_->tls, buffer.data(), static_cast<int>(buffer.size()));
    if (got <= 0) return false;
    said_.append(buffer.data(), static_cast<size_t>(got));
  }
  said_.erase(0, said_.find(text) + text.size());
  return true;
}

}  // namespace thinwire::transport
