#include "relayed_run.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace thinwire::transport {
namespace {

constexpr Validity kAlways{0, 4'000'000'000};
constexpr double kTurnSeconds = 0.01;

}  // namespace

RelayedRun::RelayedRun(const NatsLimits& limits)
    : run_(limits), authority_(make_authority(kAlways)) {
  start();
}

RelayedRun::~RelayedRun() { stop(); }

void RelayedRun::start() {
  relay_ = std::make_unique<Relay>(
      RelaySettings{.host = "127.0.0.1",
                    .port = port_,
                    .servers = {{"127.0.0.1", run_.server().port(), kServerName}},
                    .authorities = run_.server().authority(),
                    .own = make_server_certificate(authority_, kAlways),
                    .run = "run"});
  port_ = relay_->port();
  stops_ = false;
  thread_ = std::thread([this] {
    while (!stops_) {
      while (asking_ > 0) std::this_thread::yield();
      const std::scoped_lock lock(mutex_);
      relay_->serve(kTurnSeconds);
    }
  });
}

void RelayedRun::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
  relay_.reset();
}

RelayCounts RelayedRun::counts() {
  return ask([](const Relay& relay) { return relay.counts(); });
}

std::string RelayedRun::problem() {
  return ask([](const Relay& relay) { return relay.problem(); });
}

NatsOptions RelayedRun::options(const std::string& name) {
  NatsOptions options = run_.options(name);
  options.target.servers = {"127.0.0.1:" + std::to_string(port_)};
  options.target.ca_pem = authority_.certificate;
  return options;
}

std::unique_ptr<Courier> RelayedRun::connect(const std::string& name) {
  auto courier = connect_nats_courier(options(name));
  if (!courier) {
    ADD_FAILURE() << name << ": " << courier.error().message;
    throw Error(courier.error().message);
  }
  return std::move(*courier);
}

Stranger::Stranger(int port) : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const timeval patience{.tv_sec = static_cast<time_t>(kNatsPatience), .tv_usec = 0};
  ::setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

Stranger::~Stranger() { ::close(file_); }

void Stranger::send(std::string_view text) const {
  (void)::send(file_, text.data(), text.size(), MSG_NOSIGNAL);
}

bool Stranger::greeted() const {
  char first = 0;
  return ::recv(file_, &first, 1, MSG_PEEK) > 0;
}

std::string Stranger::rest() const {
  std::string all;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::recv(file_, buffer.data(), buffer.size(), 0)) > 0) {
    all.append(buffer.data(), static_cast<size_t>(got));
  }
  return got < 0 && errno != ECONNRESET ? all + "hangs" : all;
}

}  // namespace thinwire::transport
