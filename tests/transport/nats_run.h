// A run's own nats-server in a folder of its own on a free port, and couriers over it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "courier_contract.h"
#include "thinwire/base/file.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire::transport {

inline constexpr double kNatsPatience = 30;  // seconds; only what hangs takes that long

// A folder that goes away with the object.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// What is below its holder in the subject of a blob of one chunk.
inline std::string key_of(const Bytes& blob) {
  const Sha256 name = blob_id(blob).name;
  return print_key({name, name}, '.');
}

class NatsRun final : public CourierWorld {
 public:
  // Its users are coordinators called here, there and elsewhere, and whoever is added.
  explicit NatsRun(const NatsLimits& limits = {});

  std::unique_ptr<Courier> connect(const std::string& name) override;
  bool wait(MailBase& mail, size_t count) override { return mail.wait(count, kNatsPatience); }

  void add(const std::string& name, NatsRole role);
  void revoke(const std::string& name);
  // How a user connects; one that the server does not know gets a key of its own.
  NatsOptions options(const std::string& name);
  NatsServer& server() { return *server_; }
  const fs::path& folder() const { return folder_.path(); }
  std::string address() const;

 private:
  TestFolder folder_;
  std::map<std::string, Seed> seeds_;
  std::vector<NatsUser> users_;
  std::unique_ptr<NatsServer> server_;
};

}  // namespace thinwire::transport
