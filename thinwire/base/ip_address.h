// IP addresses, told apart from the names of hosts, and ports. May be used from any thread.
#pragma once

#include <string>

namespace thinwire {

// Whether `host` is an IPv4 address such as 192.0.2.1, or an IPv6 address such as 2001:db8::1
// (without brackets).
bool is_ip_address(const std::string& host);

// Why a program cannot listen at a port, and what to do about it, for this value of errno.
std::string listen_problem(int error, int port);

}  // namespace thinwire
