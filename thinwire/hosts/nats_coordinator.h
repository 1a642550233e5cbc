// The coordinator's connection to nats-servers, its own or a cluster's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::hosts {

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
