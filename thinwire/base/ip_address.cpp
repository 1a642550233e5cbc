#include "thinwire/base/ip_address.h"

#include <arpa/inet.h>

#include <array>

namespace thinwire {

bool is_ip_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  return ::inet_pton(AF_INET, host.c_str(), binary.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), binary.data()) == 1;
}

}  // namespace thinwire
