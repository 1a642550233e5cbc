#include "thinwire/hosts/entrance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/join_token.h"

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

std::string Entrance::jwt(const std::string& /*run*/, const transport::NatsUser& /*user*/) const {
  return "";
}

std::string Entrance::after_revoking(const std::vector<PublicKey>& /*keys*/) const { return ""; }

fs::path OwnServerEntrance::authority_file(const fs::path& server_folder) const {
  return server_folder / kAuthorityFile;
}

std::string OwnServerEntrance::token(const std::string& run, const Seed& secret,
                                     int64_t /*expires*/) const {
  const auto fingerprint = transport::fingerprint_of(transport::certificate_bytes(authority_));
  return transport::encode_join_token(
      {.run = run, .secret = secret, .authority_fingerprint = fingerprint});
}

void OwnServerEntrance::store(const fs::path& server_folder) const {
  write_file(server_folder / kAddressFile, address_);
}

ClusterEntrance::ClusterEntrance(const ClusterOptions& options)
    : options_(options),
      servers_(parse_servers(options.servers)),
      authority_(read_authority(options.ca_file)),
      account_(parse_account_key(read_text_file(options.key_file))) {}

std::string ClusterEntrance::served_at() const {
  return options_.sites ? fmt::format("{}", fmt::join(servers_, ", ")) : address();
}

std::string ClusterEntrance::hint() const {
  return options_.sites ? ", where the address of their own site's server stands for this one" : "";
}

std::vector<std::string> ClusterEntrance::sites() const {
  std::vector<std::string> sites;
  if (!options_.sites) return sites;
  for (const std::string& server : servers_) {
    sites.push_back(parse_endpoint("--nats", server).host);
  }
  return sites;
}

fs::path ClusterEntrance::authority_file(const fs::path& /*server_folder*/) const {
  return options_.ca_file;
}

std::string ClusterEntrance::jwt(const std::string& run, const transport::NatsUser& user) const {
  const auto now = static_cast<int64_t>(unix_seconds());
  std::vector<std::string> streams = {membership::kLedgerStream, kEntryStream};
  if (user.role == transport::NatsRole::kCoordinator) streams.emplace_back(kKeysStream);
  const transport::NatsSubjects subjects(run, options_.sites);
  return transport::user_jwt(account_, subjects, streams, user, now);
}

std::string ClusterEntrance::token(const std::string& run, const Seed& secret,
                                   int64_t expires) const {
  const PublicKey key = make_signer(secret)->key();
  const transport::NatsUser newcomer{participant_name(key), key, transport::NatsRole::kNewcomer,
                                     expires};
  return transport::encode_join_token({.run = run,
                                       .secret = secret,
                                       .servers = servers_,
                                       .jwt = jwt(run, newcomer),
                                       .authority = authority_,
                                       .sites = options_.sites});
}

// JWTs decide who may connect, and only whoever has the operator's key can revoke them.
std::string ClusterEntrance::after_revoking(const std::vector<PublicKey>& keys) const {
  std::string text =
      "; it no longer takes part. It can still read the run until the cluster's admin revokes its "
      "JWT:";
  for (const PublicKey& key : keys) {
    text +=
        fmt::format("\n  nsc revocations add-user --account {} --user-public-key {}",
                    encode_public_key(NKeyKind::kAccount, account_.account), participant_name(key));
  }
  return text;
}

void ClusterEntrance::store(const fs::path& server_folder) const {
  const Json json = {{"servers", options_.servers},
                     {"creds", absolute_text(options_.key_file)},
                     {"ca", absolute_text(options_.ca_file)},
                     {"sites", options_.sites}};
  write_file(server_folder / kClusterFile, print_json(json, {.indent = 2}) + "\n");
}

std::string MailboxEntrance::hint() const {
  return ", where the folder's path on their machine stands for this one";
}

std::string MailboxEntrance::token(const std::string& run, const Seed& secret,
                                   int64_t /*expires*/) const {
  return transport::encode_join_token({.run = run, .secret = secret});
}

void MailboxEntrance::store(const fs::path& server_folder) const {
  write_file(server_folder / kMailboxFile, folder_.string());
}

std::optional<ServedBy> served_by(const fs::path& server_folder) {
  if (fs::exists(server_folder / kClusterFile)) return ServedBy::kCluster;
  if (fs::exists(server_folder / kMailboxFile)) return ServedBy::kMailbox;
  if (fs::exists(server_folder / kAddressFile)) return ServedBy::kOwnServer;
  return std::nullopt;
}

std::unique_ptr<Entrance> load_entrance(const fs::path& server_folder) {
  switch (served_by(server_folder).value_or(ServedBy::kOwnServer)) {
    case ServedBy::kCluster:
      return std::make_unique<ClusterEntrance>(read_cluster(server_folder / kClusterFile));
    case ServedBy::kMailbox:
      return std::make_unique<MailboxEntrance>(read_text_file(server_folder / kMailboxFile));
    case ServedBy::kOwnServer:
      break;
  }
  return std::make_unique<OwnServerEntrance>(read_text_file(server_folder / kAddressFile),
                                             read_text_file(server_folder / kAuthorityFile));
}

namespace {

constexpr MessageFormat kFormat{"TWEN", 3, "an enrolment"};

PublicKey read_key(ByteReader& reader) {
  PublicKey key;
  const auto raw = reader.get_bytes(key.bytes.size());
  std::ranges::copy(raw, key.bytes.begin());
  return key;
}

}  // namespace

std::string why_no_machine_name(std::string_view name) {
  if (name.size() > kMaxMachineName) {
    return fmt::format("it has {} characters, and the most are {}", name.size(), kMaxMachineName);
  }
  const bool prints = std::ranges::all_of(name, [](char one) { return one >= ' ' && one <= '~'; });
  return prints ? "" : "it has other characters than those of ASCII that print";
}

Bytes encode_enrolment(const PublicKey& run, const PublicKey& key, const Signer& token, Role role,
                       std::string_view machine) {
  Bytes bytes;
  begin_message(bytes, kFormat);
  ByteWriter writer(bytes);
  writer.put_bytes(token.key().bytes);
  writer.put_bytes(run.bytes);
  writer.put_bytes(key.bytes);
  writer.put(static_cast<uint8_t>(role));
  writer.put_bytes(as_bytes(machine));
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
  const auto machine = reader.get_bytes(reader.remaining());
  if (!reader.at_end()) return not_a_message(kFormat, "its parts have wrong lengths");
  std::string name(machine.begin(), machine.end());
  if (const std::string why = why_no_machine_name(name); !why.empty()) {
    return not_a_message(kFormat, "its machine's name: " + why);
  }
  if (role >= std::size(kRoleNames)) return not_a_message(kFormat, "its role is unknown");
  if (its_run != run || its_key != key) {
    return not_a_message(kFormat, "it is of another key or for another run");
  }
  if (!verify(token, message->signed_part, message->signature)) {
    return not_a_message(kFormat, "its token has not signed it");
  }
  return Enrolment{token, static_cast<Role>(role), std::move(name)};
}

}  // namespace thinwire::hosts
