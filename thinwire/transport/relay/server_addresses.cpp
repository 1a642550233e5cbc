#include <netdb.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "thinwire/transport/relay/relay_session.h"

namespace thinwire::transport {
namespace {

void add_addresses(const ServerPlace& place, std::vector<ServerAddress>& all) {
  addrinfo wanted{};
  wanted.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(place.port);
  if (::getaddrinfo(place.host.c_str(), port.c_str(), &wanted, &found) != 0) return;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    ServerAddress& address = all.emplace_back();
    std::memcpy(&address.address, one->ai_addr, one->ai_addrlen);
    address.bytes = one->ai_addrlen;
    address.certificate_name = place.certificate_name;
  }
  ::freeaddrinfo(found);
}

std::vector<ServerAddress> look_up(const std::vector<ServerPlace>& places) {
  std::vector<ServerAddress> all;
  for (const ServerPlace& place : places) add_addresses(place, all);
  return all;
}

}  // namespace

ServerAddresses::ServerAddresses(std::vector<ServerPlace> places)
    : places_(std::move(places)), known_(look_up(places_)) {}

const std::vector<ServerAddress>& ServerAddresses::known() {
  const bool done = looked_up_.valid() &&
                    looked_up_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (done) {
    std::vector<ServerAddress> found = looked_up_.get();
    if (!found.empty()) known_ = std::move(found);
  }
  return known_;
}

void ServerAddresses::refresh() {
  if (looked_up_.valid()) return;
  looked_up_ = std::async(std::launch::async, look_up, places_);
}

}  // namespace thinwire::transport
