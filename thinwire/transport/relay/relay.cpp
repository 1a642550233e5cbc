#include "thinwire/transport/relay/relay.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/ip_address.h"

namespace thinwire::transport {
namespace {

constexpr double kMillisecond = 1000;   // in a second
constexpr double kPauseSeconds = 0.25;  // of accepting, when there are no descriptors left

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The socket, or -1 with the reason in errno.
int listen_at(const addrinfo& address) {
  const int made = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return made;
  const int yes = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(made, address.ai_addr, address.ai_addrlen) == 0 && ::listen(made, SOMAXCONN) == 0) {
    return made;
  }
  const int reason = errno;
  ::close(made);
  errno = reason;
  return -1;
}

void add(const RelaySession& session, RelayCounts& counts) {
  counts.to_clients_bytes += session.client().sent_bytes();
  if (session.server() == nullptr) return;
  counts.from_server_bytes += session.server()->received_bytes();
  counts.to_server_bytes += session.server()->sent_bytes();
}

}  // namespace

Relay::Relay(const RelaySettings& settings)
    : settings_(settings),
      contexts_{TlsContext::of_server(settings.own), TlsContext::of_client(settings.authorities)},
      addresses_(settings.servers),
      traffic_(*this, settings.run, settings.cache_bytes) {
  ignore_closed_pipes();
  listen();
}

Relay::~Relay() { ::close(listener_); }

void Relay::listen() {
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(settings_.port);
  const int unknown = ::getaddrinfo(settings_.host.c_str(), port.c_str(), &wanted, &found);
  std::string reason = unknown != 0 ? ::gai_strerror(unknown) : "";
  if (unknown == 0) {
    listener_ = listen_at(*found);
    if (listener_ < 0) reason = listen_problem(errno, settings_.port);
    ::freeaddrinfo(found);
  }
  if (listener_ < 0) {
    throw Error(fmt::format("--listen: cannot listen at {}:{}: {}", settings_.host, port, reason));
  }
  port_ = port_of(listener_);
}

void Relay::serve(double timeout_s) {
  std::vector<pollfd> polled;
  const bool accepts = monotonic_seconds() >= accept_from_;
  polled.push_back({accepts ? listener_ : -1, POLLIN, 0});
  bool ready = false;
  for (const auto& [client, session] : sessions_) {
    session->add_to(polled);
    ready = ready || session->ready();
  }
  const double most = accepts ? timeout_s : std::min(timeout_s, kPauseSeconds);
  ::poll(polled.data(), polled.size(),
         ready ? 0 : static_cast<int>(std::ceil(most * kMillisecond)));
  const double now = monotonic_seconds();
  std::vector<uint64_t> over;
  for (const auto& [client, session] : sessions_) {
    const bool reached = session->reached();
    if (session->has_work(polled, now)) session->advance(traffic_, now);
    if (!reached && session->reached()) problem_.clear();
    if (session->over()) over.push_back(client);
  }
  for (const uint64_t client : over) end(client);
  if (polled.front().revents != 0) accept_clients(now);
}

void Relay::accept_clients(double now) {
  while (true) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
      if (errno == EMFILE || errno == ENFILE) accept_from_ = now + kPauseSeconds;
      return;
    }
    if (sessions_.size() >= kMaxClients) {
      ::close(client);
      continue;
    }
    const uint64_t number = ++last_client_;
    traffic_.open(number);
    sessions_.emplace(
        number, std::make_unique<RelaySession>(number, client, addresses_.known(), contexts_, now));
  }
}

void Relay::end(uint64_t client) {
  const auto session = sessions_.extract(client);
  const RelaySession& ended = *session.mapped();
  if (!ended.reached() && !ended.problem().empty()) {
    problem_ = ended.problem();
    addresses_.refresh();
  }
  add(ended, ended_);
  traffic_.close(client);
}

RelayCounts Relay::counts() const {
  RelayCounts all = ended_;
  for (const auto& [client, session] : sessions_) add(*session, all);
  all.clients = sessions_.size();
  all.shared_chunks = traffic_.shared_chunks();
  all.shared_bytes = traffic_.shared_bytes();
  return all;
}

void Relay::to_client(uint64_t client, std::span<const uint8_t> bytes) {
  sessions_.at(client)->to_client(bytes);
}

void Relay::to_server(uint64_t client, std::span<const uint8_t> bytes) {
  sessions_.at(client)->to_server(bytes);
}

}  // namespace thinwire::transport
