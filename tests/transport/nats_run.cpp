#include "nats_run.h"

#include <cstdlib>

namespace thinwire::transport {

TestFolder::TestFolder() {
  std::string name = testing::TempDir() + "/thinwire_nats_XXXXXX";
  path_ = ::mkdtemp(name.data());
}

TestFolder::~TestFolder() { fs::remove_all(path_); }

NatsRun::NatsRun(const NatsLimits& limits) {
  for (const char* name : {"here", "there", "elsewhere"}) {
    seeds_[name] = make_seed();
    users_.push_back({name, make_signer(seeds_[name])->key(), NatsRole::kCoordinator});
  }
  server_ = std::make_unique<NatsServer>(NatsSettings{.host = "127.0.0.1",
                                                      .folder = folder_.path() / "nats",
                                                      .run = "run",
                                                      .streams = {"ledger"},
                                                      .limits = limits},
                                         users_, kNatsPatience);
  const auto made = create_nats_stores(options("here"), {"ledger"}, {});
  EXPECT_TRUE(made) << made.error().message;
}

std::string NatsRun::address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

NatsOptions NatsRun::options(const std::string& name) {
  if (!seeds_.contains(name)) seeds_[name] = make_seed();
  return {.target = {{address()}, server_->authority(), seeds_[name], kNatsPatience},
          .run = "run",
          .self = name};
}

std::unique_ptr<Courier> NatsRun::connect(const std::string& name) {
  auto courier = connect_nats_courier(options(name));
  if (!courier) {
    ADD_FAILURE() << name << ": " << courier.error().message;
    throw Error(courier.error().message);
  }
  return std::move(*courier);
}

void NatsRun::add(const std::string& name, NatsRole role) {
  seeds_[name] = make_seed();
  users_.push_back({name, make_signer(seeds_[name])->key(), role});
  server_->set_users(users_);
}

void NatsRun::revoke(const std::string& name) {
  for (NatsUser& user : users_) user.revoked = user.revoked || user.name == name;
  server_->set_users(users_);
}

}  // namespace thinwire::transport
