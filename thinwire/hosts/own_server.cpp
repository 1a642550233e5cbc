#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/nats_server.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

const std::vector<std::string> kStreams = {serve::kLedgerStream, kEntryStream};
constexpr double kExpiryPollSeconds = 20;  // between checks for expired users
// Of a disk. The server stops storing at its first write that fails, begins again only when it is
// started again, and until then passes on nothing from the coordinator. So it does not run while
// its disk is full: then members and `thinwire status` see at once that nobody answers.
constexpr uint64_t kFullBytes = 1 << 20;  // with less room than this
constexpr uint64_t kRoomBytes = 4 << 20;  // and until there is this much

class OwnServer final : public RunServers {
 public:
  OwnServer(const OwnServerOptions& options, std::vector<transport::NatsUser> users)
      : listen_(parse_endpoint("--listen", options.listen)),
        seed_(options.coordinator),
        key_(make_signer(seed_)->key()),
        name_(transport::participant_name(key_)),
        server_({.host = listen_.host,
                 .port = listen_.port,
                 .folder = options.folder,
                 .run = name_,
                 .streams = kStreams},
                with_coordinator(std::move(users)), kTimeoutSeconds),
        folder_(options.folder),
        entrance_{
            {options.address.empty() ? far_address(listen_, server_.port()) : options.address},
            server_.authority(),
            {}} {
    events::print_message(server_.description());
  }

  std::unique_ptr<transport::Courier> connect() override {
    return connect_coordinator({.target = {{near_address(listen_, server_.port())},
                                           server_.authority(),
                                           seed_,
                                           kTimeoutSeconds},
                                .name = name_,
                                .streams = kStreams});
  }
  const Entrance& entrance() const override { return entrance_; }
  void set_users(std::vector<transport::NatsUser> users) override {
    server_.set_users(with_coordinator(std::move(users)));
  }

  // Couriers reconnect by themselves once it is back.
  std::string maintain() override {
    server_.trim_log();
    if (const bool was_full = disk_full_; check_disk() || was_full) {
      if (disk_full_ && was_full) return "";
      if (disk_full_) {
        server_.kill();
        return full_message();
      }
      server_.restart_if_ended();
      return "there is room on the disk again; nats-server is started again";
    }
    if (monotonic_seconds() - users_checked_at_ >= kExpiryPollSeconds) {
      users_checked_at_ = monotonic_seconds();
      server_.expire_users();
    }
    if (server_.alive()) return "";
    server_.restart_if_ended();
    return "nats-server has ended; it is started again";
  }
  std::string obstacle() const override {
    return disk_full_
               ? fmt::format("room on the coordinator's disk, which is full ({})", folder_.string())
               : "";
  }

 private:
  // Whether the disk is full.
  bool check_disk() {
    std::error_code unknown;
    const fs::space_info space = fs::space(folder_, unknown);
    if (!unknown) disk_full_ = space.available < (disk_full_ ? kRoomBytes : kFullBytes);
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
  const Seed seed_;
  const PublicKey key_;
  const std::string name_;
  transport::NatsServer server_;
  const fs::path folder_;
  bool disk_full_ = false;
  const Entrance entrance_;
  double users_checked_at_ = 0;
};

}  // namespace

std::unique_ptr<RunServers> start_own_server(const OwnServerOptions& options,
                                             std::vector<transport::NatsUser> users) {
  return std::make_unique<OwnServer>(options, std::move(users));
}

}  // namespace thinwire::hosts
