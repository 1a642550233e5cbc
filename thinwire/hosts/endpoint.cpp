#include <fmt/format.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "thinwire/base/error.h"
#include "thinwire/hosts/access.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

constexpr int kMaxPort = 65535;

std::string address(const std::string& host, int port) {
  const bool bare = host.find(':') != std::string::npos;  // an IPv6 address
  return bare ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool listens_everywhere(const Endpoint& listen) {
  return listen.host == "0.0.0.0" || listen.host == "::";
}

}  // namespace

Endpoint parse_endpoint(const std::string& option, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    Endpoint endpoint{text.substr(0, colon), -1};
    if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
      endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    }
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    const bool number = error == std::errc() && rest == end;
    if (number && !endpoint.host.empty() && endpoint.port >= 0 && endpoint.port <= kMaxPort) {
      return endpoint;
    }
  }
  throw UsageError(fmt::format("{} must be HOST:PORT with a port from 0 to {}, got '{}'", option,
                               kMaxPort, text));
}

Endpoint parse_address(const std::string& option, const std::string& text) {
  Endpoint endpoint = parse_endpoint(option, text);
  if (endpoint.port == 0) {
    throw UsageError(fmt::format(
        "{} must be HOST:PORT with the port to which members connect, from 1 to {}, got '{}'",
        option, kMaxPort, text));
  }
  if (!transport::is_token_address(text)) {
    throw UsageError(
        fmt::format("{} must be HOST:PORT with a HOST of letters, digits, '-' and '.', or an IPv6 "
                    "address in [], got '{}'",
                    option, text));
  }
  return endpoint;
}

bool names_nobody(const std::string& host) {
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (status == 0) ::freeaddrinfo(found);
  return status == EAI_NONAME;
}

std::string near_address(const Endpoint& listen, int port) {
  return address(listens_everywhere(listen) ? "127.0.0.1" : listen.host, port);
}

std::string far_address(const Endpoint& listen, int port) {
  std::array<char, 256> name{};
  const bool named = listens_everywhere(listen) && ::gethostname(name.data(), name.size() - 1) == 0;
  return address(named ? name.data() : listen.host, port);
}

}  // namespace thinwire::hosts
