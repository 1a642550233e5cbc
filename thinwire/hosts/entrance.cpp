#include "thinwire/hosts/entrance.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/signed_message.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/join_token.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr const char* kClusterFile = "cluster.json";
constexpr const char* kAddressFile = "address";  // of a run's own server
constexpr const char* kMailboxFile = "mailbox";  // the path of its folder

ClusterOptions read_cluster(const fs::path& file) {
  try {
    const auto json = parse_json<Json>(read_text_file(file));
    return {json.at("servers").get<std::string>(), json.at("creds").get<std::string>(),
            json.at("ca").get<std::string>(), json.value("sites", false)};
  } catch (const std::exception& problem) {
    throw Error(fmt::format("{} is damaged: {}", file.string(), problem.what()));
  }
}

// A path that holds in every working directory.
std::string absolute_text(const fs::path& path) {
  return path.empty() ? "" : fs::absolute(path).string();
}

}  // namespace

std::vector<std::string> sites_of(const Entrance& entrance) {
  std::vector<std::string> sites;
  if (!entrance.sites) return sites;
  for (const std::string& server : entrance.servers) {
    sites.push_back(parse_endpoint("--nats", server).host);
  }
  return sites;
}

Entrance open_cluster(const ClusterOptions& options) {
  return {.servers = parse_servers(options.servers),
          .authority = read_authority(options.ca_file),
          .account = parse_account_key(read_text_file(options.key_file)),
          .sites = options.sites};
}

std::optional<Carrier> carrier_of(const fs::path& server_folder) {
  if (fs::exists(server_folder / kClusterFile)) return Carrier::kCluster;
  if (fs::exists(server_folder / kMailboxFile)) return Carrier::kMailbox;
  if (fs::exists(server_folder / kAddressFile)) return Carrier::kOwnServer;
  return std::nullopt;
}

void store_entrance(const fs::path& server_folder, const Entrance& entrance,
                    const ClusterOptions& cluster) {
  if (entrance.carrier() == Carrier::kMailbox) {
    write_file(server_folder / kMailboxFile, entrance.mailbox.string());
    return;
  }
  if (entrance.carrier() == Carrier::kOwnServer) {
    write_file(server_folder / kAddressFile, entrance.servers.front());
    return;  // the server itself has stored its authority
  }
  const Json json = {{"servers", cluster.servers},
                     {"creds", absolute_text(cluster.key_file)},
                     {"ca", absolute_text(cluster.ca_file)},
                     {"sites", cluster.sites}};
  write_file(server_folder / kClusterFile, print_json(json, {.indent = 2}) + "\n");
}

Entrance load_entrance(const fs::path& server_folder) {
  if (fs::exists(server_folder / kClusterFile)) {
    return open_cluster(read_cluster(server_folder / kClusterFile));
  }
  if (fs::exists(server_folder / kMailboxFile)) {
    return {{}, "", {}, read_text_file(server_folder / kMailboxFile)};
  }
  return {{read_text_file(server_folder / kAddressFile)},
          read_text_file(server_folder / kAuthorityFile),
          {}};
}

std::string jwt_of(const Entrance& entrance, const std::string& run,
                   const transport::NatsUser& user) {
  if (!entrance.account) return "";
  const auto now = static_cast<int64_t>(unix_seconds());
  std::vector<std::string> streams = {serve::kLedgerStream, kEntryStream};
  if (user.role == transport::NatsRole::kCoordinator) streams.emplace_back(kKeysStream);
  const transport::NatsSubjects subjects(run, entrance.sites);
  return transport::user_jwt(*entrance.account, subjects, streams, user, now);
}

std::string token_text(const Entrance& entrance, const std::string& run, const Seed& secret,
                       int64_t expires) {
  if (entrance.carrier() == Carrier::kMailbox) {
    return transport::encode_join_token({"", run, "", secret});
  }
  const PublicKey key = make_signer(secret)->key();
  const transport::NatsUser newcomer{transport::participant_name(key), key,
                                     transport::NatsRole::kNewcomer, expires};
  return transport::encode_join_token(
      {.address = entrance.servers.front(),
       .run = run,
       .authority = entrance.authority,
       .secret = secret,
       .more_addresses = {entrance.servers.begin() + 1, entrance.servers.end()},
       .jwt = jwt_of(entrance, run, newcomer),
       .sites = entrance.sites});
}

namespace {

constexpr MessageFormat kFormat{"TWEN", 2, "an enrolment"};

PublicKey read_key(ByteReader& reader) {
  PublicKey key;
  const auto raw = reader.get_bytes(key.bytes.size());
  std::ranges::copy(raw, key.bytes.begin());
  return key;
}

}  // namespace

Bytes encode_enrolment(const PublicKey& run, const PublicKey& key, const Signer& token, Role role) {
  Bytes bytes;
  begin_message(bytes, kFormat);
  ByteWriter writer(bytes);
  writer.put_bytes(token.key().bytes);
  writer.put_bytes(run.bytes);
  writer.put_bytes(key.bytes);
  writer.put(static_cast<uint8_t>(role));
  sign_message(bytes, token);
  return bytes;
}

Result<Enrolment> decode_enrolment(std::span<const uint8_t> bytes, const PublicKey& run,
                                   const PublicKey& key) {
  const Result<SignedMessage> message = open_message(bytes, kFormat);
  if (!message) return tl::unexpected(message.error());
  ByteReader reader(message->content);
  const PublicKey token = read_key(reader);
  const PublicKey its_run = read_key(reader);
  const PublicKey its_key = read_key(reader);
  const auto role = reader.get<uint8_t>();
  if (!reader.at_end()) return not_a_message(kFormat, "its parts have wrong lengths");
  if (role >= std::size(kRoleNames)) return not_a_message(kFormat, "its role is unknown");
  if (its_run != run || its_key != key) {
    return not_a_message(kFormat, "it is of another key or for another run");
  }
  if (!verify(token, message->signed_part, message->signature)) {
    return not_a_message(kFormat, "its token has not signed it");
  }
  return Enrolment{token, static_cast<Role>(role)};
}

}  // namespace thinwire::hosts
