#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>

#include "thinwire/base/error.h"
#include "thinwire/hosts/access.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

constexpr int kMaxPort = 65535;

// Empty for an address that no other machine can use: those of this machine or its link alone.
std::string usable_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    const uint32_t bits = ntohl(ip.s_addr);
    const bool loopback = bits >> 24 == 127, link_local = bits >> 16 == 0xa9fe;  // 169.254
    if (loopback || link_local) return "";
    return ::inet_ntop(AF_INET, &ip, text.data(), text.size());
  }
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_LINKLOCAL(&ip)) return "";
    return ::inet_ntop(AF_INET6, &ip, text.data(), text.size());
  }
  return "";
}

// Whether this machine finds an address by the name that others could use.
bool names_usable_address(const std::string& name) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (!usable_text(one->ai_addr).empty()) return true;
  }
  return false;
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

std::string address_text(const Endpoint& endpoint) {
  const bool bare = endpoint.host.find(':') != std::string::npos;  // an IPv6 address
  return bare ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
              : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

bool is_unknown_host(const std::string& host) {
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (status == 0) ::freeaddrinfo(found);
  return status == EAI_NONAME;
}

bool listens_everywhere(const Endpoint& listen) {
  return listen.host == "0.0.0.0" || listen.host == "::";
}

std::vector<std::string> local_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(found, ::freeifaddrs);
  std::vector<std::string> v4, v6;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    const std::string text = (one->ifa_flags & IFF_UP) == 0 ? "" : usable_text(one->ifa_addr);
    if (!text.empty()) (text.find(':') == text.npos ? v4 : v6).push_back(text);
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

std::string near_address(const Endpoint& listen, int port) {
  return address_text({listens_everywhere(listen) ? "127.0.0.1" : listen.host, port});
}

std::string far_address(const Endpoint& listen, int port) {
  if (!listens_everywhere(listen)) return address_text({listen.host, port});
  std::array<char, 256> name{};
  const bool named = ::gethostname(name.data(), name.size() - 1) == 0;
  if (named && names_usable_address(name.data())) return address_text({name.data(), port});
  const std::vector<std::string> local = local_addresses();
  if (!local.empty()) return address_text({local.front(), port});
  return address_text({named ? name.data() : listen.host, port});
}

}  // namespace thinwire::hosts
