#include "thinwire/base/ip_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace thinwire {

bool is_ip_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  return ::inet_pton(AF_INET, host.c_str(), binary.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), binary.data()) == 1;
}

std::string listen_problem(int error, int port) {
  switch (error) {
    case EADDRINUSE:
      return fmt::format(
          "another program uses port {}; end that program or give another port (0: a free one)",
          port);
    case EACCES:
      return fmt::format("port {} is one that only root may use; give a higher one (0: a free one)",
                         port);
    case EADDRNOTAVAIL:
      return "this machine has no such address";
    default:
      return std::strerror(error);
  }
}

}  // namespace thinwire
