#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/nkey.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire::hosts {
namespace {

const std::vector<std::string> kStreams = {membership::kLedgerStream, kEntryStream};
constexpr double kExpiryPollSeconds = 20;  // between checks for expired users
// The room on a disk. The server stops storing at its first write that fails, begins again only
// when it is started again, and until then passes on nothing from the coordinator. So it does not
// run while its disk is full: then members and `thinwire status` see at once that nobody answers.
constexpr uint64_t kFullBytes = 1 << 20;  // with less room than this
constexpr uint64_t kRoomBytes = 4 << 20;  // and until there is this much

class OwnServer final : public RunServers {
 public:
  OwnServer(const std::string& listen, std::string address, events::MessageSink message)
      : listen_(parse_endpoint("--listen", listen)),
        address_(std::move(address)),
        message_(std::move(message)) {
    if (!address_.empty()) (void)parse_address("--address", address_);
  }

  ServedBy served_by() const override { return ServedBy::kOwnServer; }
  std::string room(const config::Recipe& recipe, double files) const override {
    return check_room_for_store(recipe, fs::path(recipe.run.dir) / kServerFolder, files);
  }
  void start(const config::Recipe& recipe, const Seed& coordinator,
             std::vector<transport::NatsUser> users) override {
    folder_ = fs::path(recipe.run.dir) / kServerFolder;
    seed_ = coordinator;
    key_ = make_signer(seed_)->key();
    name_ = participant_name(key_);
    server_.emplace(transport::NatsSettings{.host = listen_.host,
                                            .port = listen_.port,
                                            .folder = folder_,
                                            .run = name_,
                                            .streams = kStreams},
                    with_coordinator(std::move(users)), kTimeoutSeconds);
    entrance_.emplace(address_.empty() ? far_address(listen_, server_->port()) : address_,
                      server_->authority());
    message_(server_->description());
    if (address_.empty() && listens_everywhere(listen_)) print_addresses();
  }
  std::unique_ptr<transport::Courier> connect() override {
    return connect_coordinator({.target = {{near_address(listen_, server_->port())},
                                           server_->authority(),
                                           seed_,
                                           kTimeoutSeconds},
                                .name = name_,
                                .streams = kStreams},
                               message_);
  }
  const Entrance& entrance() const override { return *entrance_; }
  std::unique_ptr<ConnectionLimit> limit_connections(transport::Courier& courier) override {
    return std::make_unique<ConnectionLimit>(courier);
  }
  void set_users(const std::vector<transport::NatsUser>& users) override {
    server_->set_users(with_coordinator(users));
  }

  // Couriers reconnect by themselves once it is back.
  std::string maintain() override {
    server_->trim_log();
    if (const bool was_full = disk_full_; check_disk() || was_full) {
      if (disk_full_ && was_full) return "";
      if (disk_full_) {
        server_->kill();
        return full_message();
      }
      server_->restart_if_ended();
      return "there is room on the disk again; nats-server is started again";
    }
    if (monotonic_seconds() - users_checked_at_ >= kExpiryPollSeconds) {
      users_checked_at_ = monotonic_seconds();
      server_->expire_users();
    }
    if (server_->alive()) return "";
    server_->restart_if_ended();
    return "nats-server has ended; it is started again";
  }
  std::string obstacle() const override {
    return disk_full_
               ? fmt::format("room on the coordinator's disk, which is full ({})", folder_.string())
               : "";
  }

 private:
  void print_addresses() const {
    std::vector<std::string> addresses = {entrance_->address()};
    for (const std::string& local : local_addresses()) {
      std::string address = address_text({local, server_->port()});
      if (address != addresses.front()) addresses.push_back(std::move(address));
    }
    message_(
        fmt::format("members in the same network reach it at {}; for others, forward the port to "
                    "this machine and give --address",
                    fmt::join(addresses, " or ")));
  }
  // Whether the disk is full.
  bool check_disk() {
    const std::optional<uint64_t> available = free_disk_bytes(folder_);
    if (available) disk_full_ = *available < (disk_full_ ? kRoomBytes : kFullBytes);
    return disk_full_;
  }
  std::string full_message() const {
    return fmt::format(
        "the disk of {} is full; nats-server is stopped and the run waits until there are {} MiB "
        "of "
        "room",
        folder_.string(), kRoomBytes >> 20);
  }
  std::vector<transport::NatsUser> with_coordinator(std::vector<transport::NatsUser> users) const {
    users.push_back({name_, key_, transport::NatsRole::kCoordinator});
    return users;
  }

  const Endpoint listen_;
  const std::string address_;  // as given
  const events::MessageSink message_;
  Seed seed_{};
  PublicKey key_;
  std::string name_;
  fs::path folder_;
  std::optional<transport::NatsServer> server_;
  std::optional<OwnServerEntrance> entrance_;
  bool disk_full_ = false;
  double users_checked_at_ = 0;
};

}  // namespace

std::unique_ptr<RunServers> use_own_server(const std::string& listen, const std::string& address,
                                           events::MessageSink message) {
  return std::make_unique<OwnServer>(listen, address, std::move(message));
}

Seed RunServers::new_seed(uint64_t /*run*/, const std::string& /*name*/) const {
  return make_seed();
}

std::unique_ptr<SharedKeys> RunServers::share_keys(transport::Courier& /*courier*/,
                                                   const Signer& /*coordinators*/,
                                                   const fs::path& /*run_folder*/) {
  return nullptr;
}

std::unique_ptr<ConnectionLimit> RunServers::limit_connections(transport::Courier& /*courier*/) {
  return nullptr;
}

void RunServers::set_users(const std::vector<transport::NatsUser>& /*users*/) {}

}  // namespace thinwire::hosts
