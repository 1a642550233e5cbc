#include "thinwire/hosts/nats_coordinator.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/transport/nats/courier_nats.h"

namespace thinwire::hosts {

std::unique_ptr<transport::Courier> connect_coordinator(const NatsCoordinator& coordinator) {
  const transport::NatsOptions options{.target = coordinator.target,
                                       .run = coordinator.name,
                                       .self = coordinator.name,
                                       .max_blob_bytes = kMaxBlobBytes,
                                       .settle_s = coordinator.settle_s,
                                       .sites = !coordinator.site.empty()};
  const Result<int> replicas = transport::create_nats_stores(
      options, coordinator.streams, {.replicas = coordinator.replicas, .site = coordinator.site});
  if (!replicas) throw Error("cannot set up the servers: " + replicas.error().message);
  if (*replicas < coordinator.replicas) {
    events::print_message(
        fmt::format("the cluster has only {} for the run: losing one of them stops it",
                    counted(int64_t{*replicas}, "server")));
  }
  auto courier = transport::connect_nats_courier(options);
  if (!courier) throw Error("cannot reach the servers: " + courier.error().message);
  return std::move(*courier);
}

}  // namespace thinwire::hosts
