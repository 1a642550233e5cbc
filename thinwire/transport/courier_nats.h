// A courier over NATS with JetStream: chunks and records are messages that the server stores on
// disk before it acknowledges them, statements are messages to whoever listens. docs/formats.md
// has the subjects, docs/security.md what the server is trusted with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/courier.h"
#include "thinwire/transport/jetstream.h"
#include "thinwire/transport/nats_connection.h"

namespace thinwire::transport {

struct NatsOptions {
  NatsTarget target;
  std::string run;   // a courier name
  std::string self;  // under which the server knows the identity
  uint64_t max_blob_bytes = 1 << 30;
};

// Connects and goes on connecting whenever the connection is lost. Failures as connect_nats.
Result<std::unique_ptr<Courier>> connect_nats_courier(const NatsOptions& options);

// Makes the stores of a run, for a coordinator: chunks, and `streams`. Those that are there stay as
// they are. Failures as connect_nats; kDeadline.
Result<void> create_nats_stores(const NatsOptions& options, const std::vector<std::string>& streams,
                                const StoreLimits& limits);

}  // namespace thinwire::transport
