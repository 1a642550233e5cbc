// What carries a run, as its coordinator uses it: a nats-server of its own, an existing cluster, or
// a mailbox.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_connection.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::hosts {

// Used by one thread.
class RunServers {
 public:
  virtual ~RunServers() = default;

  // Connects the coordinator, once its stores are there. Throws Error if that fails.
  virtual std::unique_ptr<transport::Courier> connect() = 0;
  // How everybody else connects.
  virtual const Entrance& entrance() const = 0;
  // Who may connect from now on, besides the coordinator. A server of the run's own closes the
  // connections of everybody else. Does nothing on a cluster, where JWTs decide, and with a
  // mailbox.
  virtual void set_users(std::vector<transport::NatsUser> users) = 0;
  // Restarts a server of the run's own if it has ended, and keeps it stopped while its disk is
  // full. To be called several times a second. Returns a message for the user; empty: none.
  virtual std::string maintain() = 0;
  // What the store waits for, as of the last maintain(); empty: nothing.
  virtual std::string obstacle() const { return ""; }
};

struct OwnServerOptions {
  std::string listen;   // HOST:PORT, as of ServeOptions (serve_run.h)
  std::string address;  // likewise
  fs::path folder;
  Seed coordinator{};
};

// Starts a server. Throws as transport::NatsServer does.
std::unique_ptr<RunServers> start_own_server(const OwnServerOptions& options,
                                             std::vector<transport::NatsUser> users);

// The folder of a mailbox. Throws UsageError if it is not there or cannot be written to.
std::unique_ptr<RunServers> use_mailbox(const fs::path& folder, const Seed& coordinator);

// `timeout_s`: of the run (sync.timeout_s). With a short one the coordinator turns sooner to
// another server if its own hangs, so that it hears its members again. Throws as open_cluster
// (entrance.h) does.
std::unique_ptr<RunServers> use_cluster(const ClusterOptions& options, const Seed& coordinator,
                                        double timeout_s);

// The coordinator's connection to nats-servers, its own or a cluster's.
struct NatsCoordinator {
  transport::NatsTarget target;
  std::string name;                  // of the coordinator, and of the run
  std::vector<std::string> streams;  // of the run, for records
  int replicas = 1;                  // servers that keep a copy of everything, if there are as many
  double settle_s = 0;               // as of NatsOptions (courier_nats.h)
  std::string site = {};             // of the coordinator; empty: servers are not sites
};

// Makes the stores of the run, unless they are there, and connects; prints a message if there are
// fewer servers than replicas. Throws Error if that fails.
std::unique_ptr<transport::Courier> connect_coordinator(const NatsCoordinator& coordinator);

}  // namespace thinwire::hosts
