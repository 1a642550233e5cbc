// A courier over NATS with JetStream. Chunks and records are messages that the server stores on
// disk before it acknowledges them; statements are messages to whoever is listening. The subjects
// are in docs/formats.md; docs/security.md says what the server is trusted with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/links/links.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

struct NatsOptions {
  NatsTarget target;
  std::string run;   // a courier name
  std::string self;  // the name by which the server knows the identity
  uint64_t max_blob_bytes = 1 << 30;
  double settle_s = 0;      // within which all servers of a cluster have what one has stored
  bool sites = false;       // of the cluster's servers: Courier::place
  links::Link limits = {};  // the rates within which its traffic stays; 0: no limit
};

// Connects, and reconnects whenever the connection is lost. Failures as for connect_nats.
Result<std::unique_ptr<Courier>> connect_nats_courier(const NatsOptions& options);

// Creates the stores of a run, for chunks and for each of `streams`; for a coordinator. Existing
// stores are left as they are. With options.sites, the one for chunks is the coordinator's own, at
// limits.site, and has no replicas. Returns the number of replicas: fewer than limits.replicas if
// there are not enough servers. Failures as for connect_nats, and kDeadline.
Result<int> create_nats_stores(const NatsOptions& options, const std::vector<std::string>& streams,
                               StoreLimits limits);

// Limits how long the NATS client library may take to connect over TLS, because libnats 3.4 has no
// limit itself: it waits for ever if a handshake does not go on (nats.c issue 906). If the server
// answers nothing within the time-out, or something that is not TLS, the library reads again and
// again, with a whole core and ever more memory (issue 706). The limit does no harm to later
// versions, which do not need it.

// While it exists, OpenSSL contexts that the calling thread creates are limited: on each of their
// connections, also if it is made much later by another thread, reading ends `seconds` after the
// handshake began for the thread that began it, as if the peer had closed the connection, and after
// what is no TLS. The library reads in another thread once it is connected, which is not limited.
// A thread has one of these at a time.
class ConnectBound {
 public:
  explicit ConnectBound(double seconds);
  ~ConnectBound();
  ConnectBound(const ConnectBound&) = delete;
  ConnectBound& operator=(const ConnectBound&) = delete;

  double seconds() const { return seconds_; }
  // Whether a handshake that the calling thread began meanwhile had no answer in time.
  bool expired() const { return expired_; }
  void expire() { expired_ = true; }

 private:
  const double seconds_;
  bool expired_ = false;
};

}  // namespace thinwire::transport
