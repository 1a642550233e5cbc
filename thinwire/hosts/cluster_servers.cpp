#include <algorithm>

#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr int kReplicas = 3;
constexpr double kLeastSilenceSeconds = 6;

class ClusterServers final : public RunServers {
 public:
  ClusterServers(const ClusterOptions& options, const Seed& coordinator, double timeout_s)
      : entrance_(open_cluster(options)),
        seed_(coordinator),
        silence_s_(std::clamp(timeout_s, kLeastSilenceSeconds, kTimeoutSeconds)) {}

  std::unique_ptr<transport::Courier> connect() override {
    const PublicKey key = make_signer(seed_)->key();
    const std::string name = transport::participant_name(key);
    return connect_coordinator(
        {.target = {.servers = entrance_.servers,
                    .ca_pem = entrance_.authority,
                    .identity = seed_,
                    .timeout_s = kTimeoutSeconds,
                    .silence_s = silence_s_,
                    .jwt = jwt_of(entrance_, name, {name, key, transport::NatsRole::kCoordinator}),
                    .server_name = "",
                    .only_these = entrance_.sites},
         .name = name,
         .streams = {serve::kLedgerStream, kEntryStream, kKeysStream},
         .replicas = kReplicas,
         .settle_s = kSettleSeconds,
         .site = entrance_.sites ? sites_of(entrance_).front() : ""});
  }
  const Entrance& entrance() const override { return entrance_; }
  void set_users(std::vector<transport::NatsUser> /*users*/) override {}
  std::string maintain() override { return ""; }

 private:
  const Entrance entrance_;
  const Seed seed_;
  const double silence_s_;  // as of NatsTarget
};

}  // namespace

std::unique_ptr<RunServers> use_cluster(const ClusterOptions& options, const Seed& coordinator,
                                        double timeout_s) {
  return std::make_unique<ClusterServers>(options, coordinator, timeout_s);
}

}  // namespace thinwire::hosts
