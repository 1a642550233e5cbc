#include "thinwire/transport/nats/nats_jwt.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/jetstream.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kGroup = 3;  // bytes that become four letters

}  // namespace

std::string encode_base64url(std::span<const uint8_t> bytes) {
  std::string text;
  for (size_t begin = 0; begin < bytes.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, bytes.size() - begin);
    uint32_t bits = 0;
    for (size_t i = 0; i < kGroup; ++i) bits = bits << 8 | (i < count ? bytes[begin + i] : 0u);
    for (size_t i = 0; i <= count; ++i) text += kLetters[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

namespace {

using nlohmann::json;

constexpr int kVersion = 2;
constexpr int kUnlimited = -1;
constexpr int kSubscriptions = 100;  // of one connection, as on a run's own server (nats_config.h)
constexpr const char* kHeader = R"({"alg":"ed25519-nkey","typ":"JWT"})";

std::string account_text(const PublicKey& key) {
  return encode_public_key(NKeyKind::kAccount, key);
}

// What all JWTs have in common. `subject`: whom it is about.
std::string sign_jwt(const Signer& signer, NKeyKind signer_kind, const std::string& subject,
                     const std::string& name, int64_t now, int64_t expires, json about) {
  about["version"] = kVersion;
  json claims = {{"iat", now},
                 {"iss", encode_public_key(signer_kind, signer.key())},
                 {"name", name},
                 {"nats", std::move(about)},
                 {"sub", subject}};
  if (expires != 0) claims["exp"] = expires;
  claims["jti"] = encode_base32(sha256(as_bytes(print_json(claims))).bytes);
  const std::string body = encode_base64url(as_bytes(std::string_view(kHeader))) + "." +
                           encode_base64url(as_bytes(print_json(claims)));
  return body + "." + encode_base64url(signer.sign(as_bytes(body)).bytes);
}

json unlimited() {
  json limits = {{"wildcards", true}};
  for (const char* what : {"subs", "data", "payload", "imports", "exports", "conn", "leaf"}) {
    limits[what] = kUnlimited;
  }
  return limits;
}

std::string departures_of(const std::string& account) {
  return "$SYS.ACCOUNT." + account + ".DISCONNECT";
}

}  // namespace

std::string user_jwt(const AccountKey& account, const NatsSubjects& subjects,
                     const std::vector<std::string>& streams, const NatsUser& user, int64_t now) {
  check_courier_name("a run", subjects.run());
  for (const std::string& stream : streams) check_courier_name("a stream", stream);
  const NatsPermissions may = permissions_of(user, subjects, streams);
  const auto signer = make_signer(account.secret);
  json about = {{"type", "user"},
                {"pub", {{"allow", may.publish}}},
                {"sub", {{"allow", may.subscribe}}},
                {"subs", kSubscriptions},
                {"data", kUnlimited},
                {"payload", kMaxMessageBytes + kMaxHeaderBytes}};
  if (signer->key() != account.account) about["issuer_account"] = account_text(account.account);
  return sign_jwt(*signer, NKeyKind::kAccount, encode_public_key(NKeyKind::kUser, user.key),
                  user.name, now, user.expires, std::move(about));
}

std::string operator_jwt(const Signer& operator_key, const PublicKey& system_account, int64_t now) {
  return sign_jwt(operator_key, NKeyKind::kOperator,
                  encode_public_key(NKeyKind::kOperator, operator_key.key()), "thinwire", now, 0,
                  {{"type", "operator"}, {"system_account", account_text(system_account)}});
}

std::string system_account_jwt(const Signer& operator_key, const PublicKey& account, int64_t now) {
  const json exported = {{"name", "departures"},
                         {"subject", departures_of("*")},
                         {"type", "stream"},
                         {"account_token_position", 3}};
  return sign_jwt(
      operator_key, NKeyKind::kOperator, account_text(account), "SYS", now, 0,
      {{"type", "account"}, {"limits", unlimited()}, {"exports", json::array({exported})}});
}

std::string account_jwt(const Signer& operator_key, const std::string& name,
                        const PublicKey& account, const PublicKey& system_account, int64_t now) {
  const json imported = {{"name", "departures"},
                         {"subject", departures_of(account_text(account))},
                         {"account", account_text(system_account)},
                         {"local_subject", NatsSubjects::departures()},
                         {"type", "stream"}};
  json limits = unlimited();
  for (const char* what : {"mem_storage", "disk_storage", "streams", "consumer"}) {
    limits[what] = kUnlimited;
  }
  return sign_jwt(operator_key, NKeyKind::kOperator, account_text(account), name, now, 0,
                  {{"type", "account"}, {"limits", limits}, {"imports", json::array({imported})}});
}

namespace {

void let_coordinate(NatsPermissions& may, const NatsSubjects& subjects,
                    const std::vector<std::string>& streams) {
  // For coordinators only: it reveals the addresses of others.
  may.subscribe.push_back(NatsSubjects::arrivals());
  may.subscribe.push_back(NatsSubjects::departures());
  const std::string chunks = subjects.chunk_store("*");
  may.publish.push_back(subjects.purge(chunks));
  may.publish.push_back(subjects.create(chunks));
  may.publish.push_back(subjects.info(chunks));
  if (subjects.sites()) may.publish.push_back(NatsSubjects::list());
  for (const std::string& stream : streams) {
    may.publish.push_back(subjects.create(subjects.record_store(stream)));
    may.publish.push_back(subjects.record(stream));
  }
}

}  // namespace

NatsPermissions permissions_of(const NatsUser& user, const NatsSubjects& subjects,
                               const std::vector<std::string>& streams) {
  check_courier_name("a user", user.name);
  NatsPermissions may;
  const std::string& name = user.name;
  may.subscribe = {NatsSubjects::inbox(name) + ".>", NatsSubjects::elected("*")};
  if (user.role == NatsRole::kNewcomer) {
    may.publish = {subjects.statement(name, "*")};
    may.subscribe.push_back(subjects.statement("*", name));
    return may;
  }
  for (const std::string& stream : streams) {
    may.publish.push_back(subjects.get_record(stream));
    may.publish.push_back(subjects.info(subjects.record_store(stream)));  // for its end
  }
  may.subscribe.push_back(subjects.statement("*", "*"));
  may.subscribe.push_back(subjects.stored_record("*"));
  if (user.role == NatsRole::kObserver) return may;
  may.publish.push_back(subjects.statement(name, "*"));
  may.publish.push_back(subjects.get_chunk("*", NatsSubjects::kAllChunks));
  if (user.role == NatsRole::kAuditor) return may;
  may.publish.push_back(subjects.chunk(name, NatsSubjects::kAllChunks));
  if (user.role == NatsRole::kCoordinator) let_coordinate(may, subjects, streams);
  return may;
}

}  // namespace thinwire::transport
