// What carries a run, as its coordinator uses it: a nats-server of its own, an existing cluster, or
// a mailbox.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/connection_limit.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_connection.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::hosts {

// Used by one thread.
class RunServers {
 public:
  virtual ~RunServers() = default;

  virtual ServedBy served_by() const = 0;
  // Throws UsageError if the run's folder cannot be served with this.
  virtual void check(const fs::path& /*run_folder*/) const {}
  // Settles what the recipe leaves to what carries the run. Throws UsageError as
  // method::check_command does.
  virtual void resolve(config::Recipe& /*recipe*/) const {}
  // The secret of the coordinator's key of a run that is founded; `run`: its identity.
  virtual Seed new_seed(uint64_t run, const std::string& name) const;
  // One sentence about the room that the run's store will take, with so many bytes of data and
  // base. Throws UsageError if it cannot fit (check_room_for_store).
  virtual std::string room(const config::Recipe& recipe, double files) const = 0;
  // Starts what is the run's own; `users`: as of set_users. To be called once, before what follows.
  virtual void start(const config::Recipe& recipe, const Seed& coordinator,
                     std::vector<transport::NatsUser> users) = 0;
  // Connects the coordinator, once its stores are there. Throws Error if that fails.
  virtual std::unique_ptr<transport::Courier> connect() = 0;
  // How everybody else connects.
  virtual const Entrance& entrance() const = 0;
  // Where a run may have several coordinators, what keeps their keys the same; else null.
  virtual std::unique_ptr<SharedKeys> share_keys(transport::Courier& courier,
                                                 const Signer& coordinators,
                                                 const fs::path& run_folder);
  // Where the servers say who connects, how many connections everybody has; else null.
  virtual std::unique_ptr<ConnectionLimit> limit_connections(transport::Courier& courier);
  // How long to wait for members' answers and blobs, where this is `usual` for servers.
  virtual WaitLimits patience(WaitLimits usual) const { return usual; }
  // Whether nobody can say things under another's name.
  virtual bool checks_names() const { return true; }

  // Who may connect from now on, besides the coordinator. A server of the run's own closes the
  // connections of everybody else. Does nothing on a cluster, where JWTs decide, and with a
  // mailbox.
  virtual void set_users(const std::vector<transport::NatsUser>& users);
  // Restarts a server of the run's own if it has ended, and keeps it stopped while its disk is
  // full. To be called several times a second. Returns a message for the user; empty: none.
  virtual std::string maintain() { return ""; }
  // What the store waits for, as of the last maintain(); empty: nothing.
  virtual std::string obstacle() const { return ""; }
};

// `listen`, `address`: HOST:PORT, as of ServeOptions (serve_run.h). `message` is told which server
// it is and where it is reached. Throws UsageError if they are malformed; start() throws as
// transport::NatsServer does.
std::unique_ptr<RunServers> use_own_server(const std::string& listen, const std::string& address,
                                           events::MessageSink message);

// The folder of a mailbox. check() throws UsageError if there is none, connect() if it cannot be
// written to.
std::unique_ptr<RunServers> use_mailbox(const fs::path& folder);

// `message` is told if the cluster has fewer servers than copies are wanted. Throws as
// ClusterEntrance (entrance.h) does.
std::unique_ptr<RunServers> use_cluster(const ClusterOptions& options, events::MessageSink message);

// The coordinator's connection to nats-servers, its own or a cluster's.
struct NatsCoordinator {
  transport::NatsTarget target;
  std::string name;                  // of the coordinator, and of the run
  std::vector<std::string> streams;  // of the run, for records
  int replicas = 1;                  // servers that keep a copy of everything, if there are as many
  double settle_s = 0;               // as of NatsOptions (courier_nats.h)
  std::string site = {};             // of the coordinator; empty: servers are not sites
};

// Makes the stores of the run, unless they are there, and connects; `message` is told if there are
// fewer servers than replicas. Throws Error if that fails.
std::unique_ptr<transport::Courier> connect_coordinator(const NatsCoordinator& coordinator,
                                                        const events::MessageSink& message);

}  // namespace thinwire::hosts
