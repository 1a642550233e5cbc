#include "thinwire/transport/nats/nats_jwt.h"

#include <nlohmann/json.hpp>

#include "thinwire/base/bytes.h"
#include "thinwire/base/json.h"
#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/base32.h"
#include "thinwire/transport/nats/base64url.h"
#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::transport {
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

}  // namespace thinwire::transport
