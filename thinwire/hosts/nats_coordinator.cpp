#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/transport/nats/courier_nats.h"

namespace thinwire::hosts {
namespace {

std::string reason_of(const NatsCoordinator& coordinator, const Failure& failure) {
  const std::string clock =
      clock_problem(coordinator.target.ca_pem, failure.message, unix_seconds());
  return clock.empty() ? failure.message : clock;
}

}  // namespace

std::unique_ptr<transport::Courier> connect_coordinator(const NatsCoordinator& coordinator,
                                                        const events::MessageSink& message) {
  const transport::NatsOptions options{.target = coordinator.target,
                                       .run = coordinator.name,
                                       .self = coordinator.name,
                                       .max_blob_bytes = kMaxBlobBytes,
                                       .settle_s = coordinator.settle_s,
                                       .sites = !coordinator.site.empty()};
  const std::string at = fmt::format("{}", fmt::join(coordinator.target.servers, ", "));
  const Result<int> replicas = transport::create_nats_stores(
      options, coordinator.streams, {.replicas = coordinator.replicas, .site = coordinator.site});
  if (!replicas) {
    throw Error(fmt::format("cannot set up the servers at {}: {}", at,
                            reason_of(coordinator, replicas.error())));
  }
  if (*replicas < coordinator.replicas) {
    message(fmt::format("the cluster has only {} for the run: losing one of them stops it",
                        counted(int64_t{*replicas}, "server")));
  }
  auto courier = transport::connect_nats_courier(options);
  if (!courier) {
    throw Error(fmt::format("cannot reach the servers at {}: {}", at,
                            reason_of(coordinator, courier.error())));
  }
  return std::move(*courier);
}

}  // namespace thinwire::hosts
