#include <algorithm>

#include "thinwire/base/nkey.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {
namespace {

constexpr int kReplicas = 3;
constexpr double kLeastSilenceSeconds = 6;

class ClusterServers final : public RunServers {
 public:
  ClusterServers(const ClusterOptions& options, events::MessageSink message)
      : entrance_(options), message_(std::move(message)) {}

  ServedBy served_by() const override { return ServedBy::kCluster; }
  Seed new_seed(uint64_t run, const std::string& name) const override {
    return coordinators_seed(entrance_.account(), run, name);
  }
  std::string room(const config::Recipe& recipe, double files) const override {
    return describe(store_need(recipe, files)) + " on the cluster's servers";
  }
  // With a short time-out the coordinator turns sooner to another server if its own hangs, so that
  // it hears its members again.
  void start(const config::Recipe& recipe, const Seed& coordinator,
             std::vector<transport::NatsUser> /*users*/) override {
    seed_ = coordinator;
    silence_s_ = std::clamp(recipe.sync.timeout_s, kLeastSilenceSeconds, kTimeoutSeconds);
  }
  std::unique_ptr<transport::Courier> connect() override {
    const PublicKey key = make_signer(seed_)->key();
    const std::string name = participant_name(key);
    const std::vector<std::string> sites = entrance_.sites();
    return connect_coordinator(
        {.target = {.servers = entrance_.servers(),
                    .ca_pem = entrance_.authority(),
                    .identity = seed_,
                    .timeout_s = kTimeoutSeconds,
                    .silence_s = silence_s_,
                    .jwt = entrance_.jwt(name, {name, key, transport::NatsRole::kCoordinator}),
                    .server_name = "",
                    .only_these = !sites.empty()},
         .name = name,
         .streams = {membership::kLedgerStream, kEntryStream, kKeysStream},
         .replicas = kReplicas,
         .settle_s = kSettleSeconds,
         .site = sites.empty() ? "" : sites.front()},
        message_);
  }
  const Entrance& entrance() const override { return entrance_; }
  std::unique_ptr<SharedKeys> share_keys(transport::Courier& courier, const Signer& coordinators,
                                         const fs::path& run_folder) override {
    return std::make_unique<SharedKeys>(courier, coordinators, run_folder);
  }

 private:
  const ClusterEntrance entrance_;
  const events::MessageSink message_;
  Seed seed_{};
  double silence_s_ = kTimeoutSeconds;  // as of NatsTarget
};

}  // namespace

std::unique_ptr<RunServers> use_cluster(const ClusterOptions& options,
                                        events::MessageSink message) {
  return std::make_unique<ClusterServers>(options, std::move(message));
}

}  // namespace thinwire::hosts
