// A courier over NATS with JetStream. Chunks and records are messages that the server stores on
// disk before it acknowledges them; statements are messages to whoever is listening. The subjects
// are in docs/formats.md; docs/security.md says what the server is trusted with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

struct NatsOptions {
  NatsTarget target;
  std::string run;   // a courier name
  std::string self;  // the name by which the server knows the identity
  uint64_t max_blob_bytes = 1 << 30;
  double settle_s = 0;  // within which all servers of a cluster have what one has stored
  bool sites = false;   // of the cluster's servers: Courier::place
};

// Connects, and reconnects whenever the connection is lost. Failures as for connect_nats.
Result<std::unique_ptr<Courier>> connect_nats_courier(const NatsOptions& options);

// Creates the stores of a run, for chunks and for each of `streams`; for a coordinator. Existing
// stores are left as they are. With options.sites, the one for chunks is the coordinator's own, at
// limits.site, and has no replicas. Returns the number of replicas: fewer than limits.replicas if
// there are not enough servers. Failures as for connect_nats, and kDeadline.
Result<int> create_nats_stores(const NatsOptions& options, const std::vector<std::string>& streams,
                               StoreLimits limits);

}  // namespace thinwire::transport
