// Addresses as HOST:PORT.
#pragma once

#include <string>

namespace thinwire::hosts {

struct Endpoint {
  std::string host;  // an IPv6 address without its brackets
  int port = 0;
};

// Throws UsageError that names the option for anything but HOST:PORT with a port from 0 to 65535.
Endpoint parse_endpoint(const std::string& option, const std::string& text);

// Whether it is certain that no machine has this name: false while names cannot be looked up.
bool names_nobody(const std::string& host);

// The address of a server that listens at `listen` with this actual port: for use on this machine
// (near), and for use on others (far). If it listens on all addresses, the latter is this machine's
// name.
std::string near_address(const Endpoint& listen, int port);
std::string far_address(const Endpoint& listen, int port);

}  // namespace thinwire::hosts
