#include "thinwire/transport/nats/nats_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "thinwire/base/digest.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/jetstream.h"

namespace thinwire::transport {
namespace {

using nlohmann::json;

// Go's notation of a duration.
std::string duration(double seconds) { return fmt::format("{:.0f}ms", seconds * 1000); }

// A participant's connections belong to the first account. The server itself reports to the second
// one, in which there is no user, and the first imports what it says about connections that began
// and ended.
constexpr const char* kRunAccount = "RUN";
constexpr const char* kServerAccount = "SERVER";

json user_entry(const NatsUser& user, const NatsSubjects& subjects,
                const std::vector<std::string>& streams) {
  const NatsPermissions may = permissions_of(user, subjects, streams);
  return {{"nkey", encode_public_key(NKeyKind::kUser, user.key)},
          {"permissions",
           {{"publish", {{"allow", may.publish}}}, {"subscribe", {{"allow", may.subscribe}}}}}};
}

json accounts(const json& users) {
  json imports = json::array(), exports = json::array();
  const auto pass_on = [&](const std::string& event, const std::string& to) {
    const std::string subject = "$SYS.ACCOUNT." + std::string(kRunAccount) + "." + event;
    imports.push_back(
        {{"stream", {{"account", kServerAccount}, {"subject", subject}}}, {"to", to}});
    exports.push_back({{"stream", subject}, {"accounts", json::array({kRunAccount})}});
  };
  pass_on("CONNECT", NatsSubjects::arrivals());
  pass_on("DISCONNECT", NatsSubjects::departures());
  return {{kRunAccount, {{"jetstream", "enabled"}, {"users", users}, {"imports", imports}}},
          {kServerAccount, {{"exports", exports}}}};
}

// Without any user, the server would admit everybody. This user always exists, and nobody has its
// key, because the public key is a hash.
json nobody() {
  const std::string text = "a key that nobody has";
  return {{"nkey", encode_public_key(NKeyKind::kUser, {sha256(as_bytes(text)).bytes})},
          {"permissions", {{"publish", {{"deny", ">"}}}, {"subscribe", {{"deny", ">"}}}}}};
}

// What a server needs beside its connections: about 20 at rest, and for each block of its store
// that it reads or writes at the moment.
constexpr uint64_t kFilesOfStore = 200;

}  // namespace

int connections_within(uint64_t files) {
  const uint64_t left = std::max({uint64_t{1}, files / 2, files - std::min(files, kFilesOfStore)});
  return static_cast<int>(std::min<uint64_t>(left, std::numeric_limits<int>::max()));
}

std::string nats_configuration(const NatsSettings& settings, std::span<const NatsUser> users,
                               int64_t now) {
  check_courier_name("a run", settings.run);
  for (const std::string& stream : settings.streams) check_courier_name("a stream", stream);
  const NatsSubjects subjects(settings.run);
  json entries = json::array({nobody()});
  for (const NatsUser& user : users) {
    const bool expired = user.expires != 0 && user.expires <= now;
    if (!user.revoked && !expired) {
      entries.push_back(user_entry(user, subjects, settings.streams));
    }
  }
  const NatsLimits& limits = settings.limits;
  // The server's language contains JSON. A port of -1 is one that it picks.
  const json all = {{"host", settings.host},
                    {"port", settings.port == 0 ? -1 : settings.port},
                    {"ports_file_dir", settings.folder.string()},
                    {"tls",
                     {{"cert_file", (settings.folder / kServerCertificateFile).string()},
                      {"key_file", (settings.folder / kServerKeyFile).string()},
                      {"timeout", limits.handshake_s}}},
                    {"authorization", {{"timeout", limits.handshake_s}}},
                    {"accounts", accounts(entries)},
                    {"system_account", kServerAccount},
                    {"jetstream",
                     {{"store_dir", (settings.folder / kStoreFolder).string()},
                      {"max_file_store", limits.store_bytes}}},
                    {"max_payload", kMaxMessageBytes + kMaxHeaderBytes},
                    {"max_connections", limits.connections},
                    {"max_subscriptions", limits.subscriptions},
                    {"max_pending", limits.pending_bytes},
                    {"max_control_line", kMaxHeaderBytes},
                    {"write_deadline", duration(limits.write_s)},
                    {"ping_interval", duration(limits.silence_s / 3)},
                    {"ping_max", 2}};
  return print_json(all, {.indent = 2}) + "\n";
}

}  // namespace thinwire::transport
