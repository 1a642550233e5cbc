#include "thinwire/base/error.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

Result<std::unique_ptr<NatsConnection>> connect_nats(const NatsTarget& /*target*/,
                                                     NatsConnection::Events /*events*/) {
  throw UsageError(
      "members on other hosts need a program built with NATS: install libnats-dev and nats-server, "
      "configure and build again");
}

}  // namespace thinwire::transport
