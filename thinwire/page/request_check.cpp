#include <algorithm>
#include <cctype>

#include "thinwire/base/ip_address.h"
#include "thinwire/page/page_server.h"

namespace thinwire::page {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {  // an IPv6 address
    const size_t end = host.find(']');
    return end == std::string_view::npos ? std::string_view() : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

}  // namespace

bool is_own_host(std::string_view host, std::string_view listen, std::string_view own_name) {
  const std::string name = lower_case(without_port(host));
  const std::string own = lower_case(own_name);
  if (name.empty()) return false;
  if (is_ip_address(name) || name == "localhost" || name == lower_case(listen)) return true;
  return !own.empty() && (name == own || name == own + ".local");
}

}  // namespace thinwire::page
