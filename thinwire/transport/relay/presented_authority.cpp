#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/relay/relay_session.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kGreeting = "INFO ";
constexpr size_t kMostGreeting = 64 << 10;

auto no_answer() { return fail(FailureKind::kLostPeer, "nobody answers"); }

// A socket that is connected, or -1.
int connected_to(const ServerAddress& server, double timeout_s) {
  const int made = ::socket(server.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return made;
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(std::ceil(timeout_s));
  // Linux holds connect() to it, too.
  (void)::setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const auto* address = reinterpret_cast<const sockaddr*>(&server.address);
  if (::connect(made, address, server.bytes) == 0) return made;
  ::close(made);
  return -1;
}

// Whether a whole line of greeting has come; nothing if it is none of NATS's.
std::optional<bool> is_greeted(const Bytes& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t compared = std::min(text.size(), kGreeting.size());
  if (text.substr(0, compared) != kGreeting.substr(0, compared) || text.size() > kMostGreeting) {
    return std::nullopt;
  }
  return text.ends_with('\n');
}

// Shakes hands with a server that greets, and returns the certificates that it presents.
Result<std::vector<Bytes>> presented_by(const ServerAddress& server, double timeout_s) {
  const double deadline = monotonic_seconds() + timeout_s;
  const auto left_s = [&] { return std::max(0.0, deadline - monotonic_seconds()); };
  const int connected = connected_to(server, timeout_s);
  if (connected < 0) return no_answer();
  const auto silent = [&] {
    return fail(FailureKind::kLostPeer,
                fmt::format("the server took the connection, but then did not answer for {:g} s",
                            timeout_s));
  };
  TlsStream stream(connected);
  Bytes greeting;
  for (bool shakes = false; !stream.handshaken();) {
    pollfd polled{stream.socket(), stream.events(), 0};
    if (left_s() == 0) return silent();
    (void)::poll(&polled, 1, static_cast<int>(std::ceil(left_s() * 1000)));
    const bool lives = stream.advance();
    const Bytes more = stream.take();
    greeting.insert(greeting.end(), more.begin(), more.end());
    const std::optional<bool> greeted = is_greeted(greeting);
    if (!greeted) return fail(FailureKind::kRefused, "what answers there is not a NATS server");
    if (shakes && !lives) {
      const std::string& why = stream.failure();
      return fail(FailureKind::kRefused,
                  fmt::format("it does not speak TLS ({})", why.empty() ? "it hung up" : why));
    }
    if (*greeted && !shakes) {
      stream.connect_tls(TlsContext::of_unverified_client(), kServerName);
      shakes = true;
      (void)stream.advance();  // the client speaks first
    } else if (!lives) {
      return no_answer();
    }
  }
  return stream.peer_certificates();
}

}  // namespace

Result<std::string> presented_authority(const std::string& host, int port,
                                        const Fingerprint& fingerprint, double timeout_s) {
  ignore_closed_pipes();
  Result<std::string> result = no_answer();
  ServerAddresses addresses({{host, port, kServerName}});
  for (const ServerAddress& server : addresses.known()) {
    const Result<std::vector<Bytes>> presented = presented_by(server, timeout_s);
    if (!presented) {
      result = tl::unexpected(presented.error());
      continue;
    }
    for (const Bytes& der : *presented) {
      if (fingerprint_of(der) != fingerprint) continue;
      if (const auto pem = certificate_text(der)) return *pem;
    }
    result = fail(FailureKind::kRefused, "the server there is not of the token's run");
  }
  return result;
}

}  // namespace thinwire::transport
