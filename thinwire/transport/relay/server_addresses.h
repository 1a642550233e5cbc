// The addresses of a run's servers, looked up in the background, so that a name server that does
// not answer holds nothing up.
#pragma once

#include <sys/socket.h>

#include <future>
#include <string>
#include <vector>

namespace thinwire::transport {

struct ServerPlace {
  std::string host;
  int port = 0;
  std::string certificate_name;  // the name, or IP address, in its certificate
};

struct ServerAddress {
  sockaddr_storage address{};
  socklen_t bytes = 0;
  std::string certificate_name;
};

// Used by one thread.
class ServerAddresses {
 public:
  // Looks them up.
  explicit ServerAddresses(std::vector<ServerPlace> places);
  // Waits for a look-up that has begun.
  ~ServerAddresses() = default;
  ServerAddresses(const ServerAddresses&) = delete;
  ServerAddresses& operator=(const ServerAddresses&) = delete;

  // In the order of the places; empty while none is known.
  const std::vector<ServerAddress>& known();
  // Begins to look them up again, unless it is doing so. The known ones remain until then, and if
  // nothing is found.
  void refresh();

 private:
  const std::vector<ServerPlace> places_;
  std::vector<ServerAddress> known_;
  std::future<std::vector<ServerAddress>> looked_up_;
};

}  // namespace thinwire::transport
