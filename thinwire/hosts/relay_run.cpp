#include "thinwire/hosts/relay_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kRelayAuthorityFile = "authority.pem";
constexpr const char* kRelayAuthorityKeyFile = "authority.key";
constexpr const char* kRelayPortFile = "port";
constexpr size_t kShownOfRelayedRun = 8;
constexpr double kServeSeconds = 0.2;

fs::path folder_of_relay(const RelayOptions& options) {
  if (!options.folder.empty()) return options.folder;
  return fs::path("runs") / ("relay-" + options.access.run.substr(1, kShownOfRelayedRun));
}

transport::Certificate load_or_make_authority(const fs::path& folder) {
  if (!fs::exists(folder / kRelayAuthorityFile)) {
    const transport::Certificate made = transport::make_authority(transport::validity_from_now());
    write_file(folder / kRelayAuthorityKeyFile, made.key);
    write_file(folder / kRelayAuthorityFile, made.certificate);  // last: then both are there
  }
  return {read_text_file(folder / kRelayAuthorityFile),
          read_text_file(folder / kRelayAuthorityKeyFile)};
}

// Whoever has joined before has a key of its own, so a relay that comes back is of use to them even
// if its token has expired since.
void check_token(Access& access, bool came_before) {
  if (!came_before) {
    (void)connect(access, access.newcomer);
  } else if (!try_connect(access, access.newcomer)) {
    access.message(fmt::format(
        "{} no longer accepts the token: those who have joined before go on, nobody else can join",
        access.address()));
  }
}

transport::RelaySettings settings_of(const RelayOptions& options, const Access& access,
                                     const fs::path& folder,
                                     const transport::Certificate& authority) {
  const Endpoint listen = parse_endpoint("--listen", options.listen);
  const std::string address = options.address.empty() ? far_address(listen, 0) : options.address;
  transport::RelaySettings settings;
  settings.host = listen.host;
  settings.port = listen.port;
  if (listen.port == 0 && fs::exists(folder / kRelayPortFile)) {
    settings.port = std::stoi(read_text_file(folder / kRelayPortFile));
  }
  for (const std::string& server : access.servers) {
    const Endpoint place = parse_endpoint("address", server);
    settings.servers.push_back({place.host, place.port, access.approach->server_name(place.host)});
  }
  settings.authorities = access.authority;
  settings.own = transport::make_server_certificate(authority, transport::validity_from_now(),
                                                    parse_endpoint("--address", address).host);
  settings.run = access.run;
  settings.cache_bytes = options.cache_bytes;
  return settings;
}

void announce(const RelayOptions& options, const fs::path& folder, int port,
              const transport::Certificate& authority) {
  const Endpoint listen = parse_endpoint("--listen", options.listen);
  const std::string address = options.address.empty() ? far_address(listen, port) : options.address;
  const std::string token = transport::encode_join_token(
      options.access.approach->relay_token(options.access, address, authority.certificate));
  if (!options.ready_file.empty()) {
    const nlohmann::json ready = {{"address", address},
                                  {"token", token},
                                  {"ca", fs::absolute(folder / kRelayAuthorityFile).string()}};
    write_file(options.ready_file, print_json(ready, {.indent = 2}) + "\n");
  }
  if (options.on_ready) options.on_ready(address, token);
  const events::Display& display = options.display;
  display.message(fmt::format("relays the run at {}; machines at this site join with",
                              options.access.address()));
  const std::string command = fmt::format("  thinwire join {} --token {}", address, token);
  options.ready_file.empty() ? display.needed(command) : display.message(command);
}

// Shows what has gone through, and whether the run's server can be reached.
class RelayDisplay {
 public:
  RelayDisplay(std::string address, const events::Display& display)
      : address_(std::move(address)),
        print_(display.message),
        progress_("relay", 0, {.bytes = true, .silent = !display.progress}) {}

  void show(const transport::Relay& relay) {
    show_problem(relay.problem());
    const transport::RelayCounts counts = relay.counts();
    const auto passed = static_cast<int64_t>(counts.to_clients_bytes);
    if (passed == passed_ && counts.clients == clients_) return;
    passed_ = passed;
    clients_ = counts.clients;
    const auto bytes = [](uint64_t count) { return format_bytes(static_cast<double>(count)); };
    progress_.update(passed, {{"", counted(uint64_t{clients_}, "connection")},
                              {"from the run", bytes(counts.from_server_bytes)},
                              {"to it", bytes(counts.to_server_bytes)}});
  }

 private:
  void show_problem(const std::string& problem) {
    if (problem.empty() == problem_.empty()) return;
    problem_ = problem;
    print_(problem.empty()
               ? fmt::format("{} can be reached again", address_)
               : fmt::format("{} cannot be reached ({}); members try again", address_, problem));
  }

  const std::string address_;
  const events::MessageSink print_;
  events::Progress progress_;
  std::string problem_;
  int64_t passed_ = 0;
  size_t clients_ = 0;
};

}  // namespace

transport::RelayCounts relay_run(const RelayOptions& options) {
  options.access.approach->check_relay();
  (void)parse_endpoint("--listen", options.listen);
  if (!options.address.empty()) (void)parse_address("--address", options.address);
  const fs::path folder = folder_of_relay(options);
  checkpoint::check_owner(folder, checkpoint::FolderOwner::kRelay);
  Access access = options.access;
  access.message = options.display.message;
  check_token(access, fs::exists(folder / kRelayAuthorityFile));
  const checkpoint::FolderClaim claim(folder, checkpoint::FolderOwner::kRelay);
  make_private_folder(folder);
  const transport::Certificate authority = load_or_make_authority(folder);
  transport::Relay relay(settings_of(options, access, folder, authority));
  write_file(folder / kRelayPortFile, std::to_string(relay.port()));
  announce(options, folder, relay.port(), authority);
  if (options.on_start) options.on_start();
  RelayDisplay display(options.access.address(), options.display);
  while (options.stop == nullptr || !*options.stop) {
    relay.serve(kServeSeconds);
    display.show(relay);
  }
  return relay.counts();
}

}  // namespace thinwire::hosts
