#include "thinwire/transport/nats_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier.h"
#include "thinwire/transport/jetstream.h"
#include "thinwire/transport/nkey.h"

namespace thinwire::transport {
namespace {

using nlohmann::json;
using Subjects = std::vector<std::string>;

// Go's notation of a duration.
std::string duration(double seconds) { return fmt::format("{:.0f}ms", seconds * 1000); }

struct Permissions {
  Subjects publish;
  Subjects subscribe;
};

Subjects reading_records(const NatsSubjects& subjects, const Subjects& streams) {
  Subjects all;
  for (const std::string& stream : streams) all.push_back(subjects.get_record(stream));
  return all;
}

Permissions permissions_of(const NatsUser& user, const NatsSubjects& subjects,
                           const Subjects& streams) {
  Permissions may;
  const std::string& name = user.name;
  may.subscribe = {NatsSubjects::inbox(name) + ".>"};
  if (user.role == NatsRole::kNewcomer) {
    may.publish = {subjects.statement(name, "*")};
    may.subscribe.push_back(subjects.statement("*", name));
    return may;
  }
  may.publish = reading_records(subjects, streams);
  may.subscribe.push_back(subjects.statement("*", "*"));
  may.subscribe.push_back(subjects.stored_record("*"));
  if (user.role == NatsRole::kObserver) return may;
  may.publish.push_back(subjects.statement(name, "*"));
  may.publish.push_back(subjects.chunk(name, "*"));
  may.publish.push_back(subjects.get_chunk("*", "*"));
  if (user.role == NatsRole::kMember) return may;
  may.publish.push_back(subjects.purge(subjects.chunk_store()));
  may.publish.push_back(subjects.create(subjects.chunk_store()));
  for (const std::string& stream : streams) {
    may.publish.push_back(subjects.create(subjects.record_store(stream)));
    may.publish.push_back(subjects.record(stream));
  }
  return may;
}

json user_entry(const NatsUser& user, const NatsSubjects& subjects, const Subjects& streams) {
  check_courier_name("a user", user.name);
  const Permissions may = permissions_of(user, subjects, streams);
  return {{"nkey", encode_public_key(NKeyKind::kUser, user.key)},
          {"permissions",
           {{"publish", {{"allow", may.publish}}}, {"subscribe", {{"allow", may.subscribe}}}}}};
}

// Without any user, the server would let everybody in. This one is always there, and nobody has its
// key, for it is a hash.
json nobody() {
  const std::string text = "a key that nobody has";
  return {{"nkey", encode_public_key(NKeyKind::kUser, {sha256(as_bytes(text)).bytes})},
          {"permissions", {{"publish", {{"deny", ">"}}}, {"subscribe", {{"deny", ">"}}}}}};
}

}  // namespace

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
                    {"accounts", {{"RUN", {{"jetstream", "enabled"}, {"users", entries}}}}},
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
  return all.dump(2) + "\n";
}

}  // namespace thinwire::transport
