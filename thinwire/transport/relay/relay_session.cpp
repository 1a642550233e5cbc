#include "thinwire/transport/relay/relay_session.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/json.h"

namespace thinwire::transport {
namespace {

constexpr double kAttemptSeconds = 6;  // to reach one server
constexpr double kClosingSeconds = 5;  // for what the other side has still to get
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kTurns = 4;  // of one session, before others have theirs
constexpr short kBroken = POLLERR | POLLHUP | POLLNVAL;

bool offers_tls(const NatsFrame& info) {
  const auto json = try_parse_json<nlohmann::json>(info.text);
  return json.is_object() && json.contains("tls_required") && json["tls_required"] == true;
}

void send_at_once(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

RelaySession::RelaySession(uint64_t number, int socket, std::vector<ServerAddress> servers,
                           const RelayContexts& contexts, double now)
    : number_(number),
      servers_(std::move(servers)),
      contexts_(contexts),
      deadline_(now + kConnectSeconds),
      client_(socket) {
  send_at_once(socket);
  connect_next(now);
}

RelaySession::~RelaySession() {
  if (connecting_ >= 0) ::close(connecting_);
}

void RelaySession::give_up(const std::string& problem) {
  if (!problem.empty()) problem_ = problem;
  state_ = State::kOver;
}

void RelaySession::connect_next(double now) {
  while (next_server_ < servers_.size()) {
    const ServerAddress& server = servers_[next_server_++];
    const auto* address = reinterpret_cast<const sockaddr*>(&server.address);
    connecting_ = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    attempt_until_ = now + kAttemptSeconds;
    const bool begun = connecting_ >= 0 &&
                       (::connect(connecting_, address, server.bytes) == 0 || errno == EINPROGRESS);
    if (begun) return;
    problem_ = std::strerror(errno);
    if (connecting_ >= 0) ::close(std::exchange(connecting_, -1));
  }
  give_up("");
}

void RelaySession::finish_connecting(double now) {
  pollfd waiting{.fd = connecting_, .events = POLLOUT, .revents = 0};
  if (::poll(&waiting, 1, 0) == 0) {
    if (now < attempt_until_) return;
    problem_ = fmt::format("no answer in {:g} s", kAttemptSeconds);
  } else {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(connecting_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
      problem_.clear();
      send_at_once(connecting_);
      server_ = std::make_unique<TlsStream>(std::exchange(connecting_, -1));
      state_ = State::kGreeting;
      return;
    }
    problem_ = std::strerror(error);
  }
  ::close(std::exchange(connecting_, -1));
  connect_next(now);
}

// The greeting is a line in plain text; the server says nothing more before TLS begins.
void RelaySession::take_greeting(RelayTraffic& traffic) {
  const bool lives = server_->advance();
  server_frames_.add(server_->take());
  const auto frame = server_frames_.next();
  if (!frame) return give_up(frame.error().message);
  if (!*frame) {
    if (!lives) give_up("it closed the connection");
    return;
  }
  if ((*frame)->verb != NatsVerb::kInfo) return give_up("it does not greet as a NATS server does");
  if (!offers_tls(**frame)) return give_up("it does not use TLS");
  server_->connect_tls(contexts_.servers, servers_[next_server_ - 1].certificate_name);
  traffic.from_server(number_, **frame);
  client_.accept_tls(contexts_.clients);
  state_ = State::kOpen;
}

void RelaySession::advance(RelayTraffic& traffic, double now) {
  if (state_ == State::kConnecting) finish_connecting(now);
  if (state_ == State::kGreeting) take_greeting(traffic);
  if (state_ == State::kOpen || state_ == State::kClosing) exchange(traffic, now);
  if (state_ == State::kOpen && reached() && client_.handshaken()) deadline_ = kNever;
  if (state_ != State::kOver && late(now)) {
    give_up(reached() ? "" : fmt::format("no answer in {:g} s", kConnectSeconds));
  }
}

void RelaySession::exchange(RelayTraffic& traffic, double now) {
  for (int turn = 0; turn < kTurns && state_ != State::kOver; ++turn) {
    if (client_lives_) client_lives_ = client_.advance();
    if (server_lives_) server_lives_ = server_->advance();
    const bool passed = pass_on(traffic);
    client_.set_reading(both_keep_up());
    server_->set_reading(client_.unsent() < kMaxUnsent);
    if (!passed) break;
  }
  if (!server_lives_ && !reached()) problem_ = server_->failure();
  if (!client_lives_ || !server_lives_) finish(now);
}

// Whether anything was there to be passed on.
bool RelaySession::pass_on(RelayTraffic& traffic) {
  const bool from_client = pass_client(traffic);
  const bool from_server = pass_server(traffic);
  return from_client || from_server;
}

bool RelaySession::pass_client(RelayTraffic& traffic) {
  client_frames_.add(client_.take());
  bool passed = false;
  // A short request may have a long answer from here, so the rest of them waits.
  while (state_ != State::kOver && both_keep_up()) {
    const auto frame = client_frames_.next();
    if (!frame) give_up("");
    if (!frame || !*frame) break;
    traffic.from_client(number_, **frame);
    passed = true;
  }
  return passed;
}

bool RelaySession::pass_server(RelayTraffic& traffic) {
  server_frames_.add(server_->take());
  bool passed = false;
  while (state_ != State::kOver) {
    const auto frame = server_frames_.next();
    if (!frame) give_up("");
    if (!frame || !*frame) break;
    traffic.from_server(number_, **frame);
    passed = true;
  }
  return passed;
}

bool RelaySession::both_keep_up() const {
  return client_.unsent() < kMaxUnsent && server_->unsent() < kMaxUnsent;
}

// One side has ended: the other gets what is left.
void RelaySession::finish(double now) {
  if (state_ == State::kOpen) {
    state_ = State::kClosing;
    deadline_ = now + kClosingSeconds;
  }
  const bool for_client = client_lives_ && client_.handshaken() && client_.unsent() > 0;
  const bool for_server = server_lives_ && server_->handshaken() && server_->unsent() > 0;
  if (!for_client && !for_server) state_ = State::kOver;
}

void RelaySession::add_to(std::vector<pollfd>& polled) {
  polled_at_ = polled.size();
  if (state_ == State::kConnecting) polled.push_back({connecting_, POLLOUT, 0});
  if (state_ == State::kGreeting) polled.push_back({server_->socket(), server_->events(), 0});
  if (state_ != State::kOpen && state_ != State::kClosing) return;
  polled.push_back({client_lives_ ? client_.socket() : -1, client_.events(), 0});
  polled.push_back({server_lives_ ? server_->socket() : -1, server_->events(), 0});
}

bool RelaySession::has_work(const std::vector<pollfd>& polled, double now) {
  if (state_ == State::kConnecting || state_ == State::kGreeting) {
    return polled[polled_at_].revents != 0 || late(now) ||
           (state_ == State::kConnecting && now >= attempt_until_);
  }
  if (state_ == State::kOver) return false;
  const short client = polled[polled_at_].revents;
  const short server = polled[polled_at_ + 1].revents;
  // Without being read, a broken connection would be found again and again.
  if ((client & kBroken) != 0 && (client_.events() & POLLIN) == 0) client_lives_ = false;
  if ((server & kBroken) != 0 && (server_->events() & POLLIN) == 0) server_lives_ = false;
  return client != 0 || server != 0 || ready() || late(now);
}

bool RelaySession::ready() const {
  const bool open = state_ == State::kOpen || state_ == State::kClosing;
  return open && ((client_lives_ && client_.ready()) || (server_lives_ && server_->ready()));
}

}  // namespace thinwire::transport
