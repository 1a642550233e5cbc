#include "thinwire/transport/nats/nats_jwt.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"

namespace thinwire::transport {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;

constexpr int64_t kNow = 1000;

// An independent reading of base64url.
Bytes decode(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  Bytes bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    bits = bits << 6 | static_cast<uint32_t>(letters.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

struct Jwt {
  explicit Jwt(const std::string& text) {
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
    signed_text = parts[0] + "." + parts[1];
    const Bytes body = decode(parts[1]);
    claims = parse_json<json>(std::string(body.begin(), body.end()));
  }
  bool is_signed_by(const PublicKey& key) const {
    const Bytes raw = decode(parts.at(2));
    Signature signature;
    if (raw.size() != signature.bytes.size()) return false;
    std::ranges::copy(raw, signature.bytes.begin());
    return verify(key, as_bytes(signed_text), signature);
  }
  std::vector<std::string> parts;
  std::string signed_text;
  json claims;
};

AccountKey account() {
  const Seed seed = make_seed();
  return {make_signer(seed)->key(), seed};
}

NatsUser member() { return {"me", make_signer(make_seed())->key(), NatsRole::kMember}; }

std::string text_of(NKeyKind kind, const PublicKey& key) { return encode_public_key(kind, key); }

TEST(Base64Url, AgreesWithTheStandard) {
  EXPECT_EQ(encode_base64url({}), "");
  EXPECT_EQ(encode_base64url(as_bytes(std::string_view("f"))), "Zg");
  EXPECT_EQ(encode_base64url(as_bytes(std::string_view("fo"))), "Zm8");
  EXPECT_EQ(encode_base64url(as_bytes(std::string_view("foobar"))), "Zm9vYmFy");
  EXPECT_EQ(encode_base64url(Bytes{0xfb, 0xff}), "-_8");
}

TEST(NatsJwt, AUsersJwtSaysWhatItMayDoAndTheAccountSignsIt) {
  const AccountKey key = account();
  const NatsUser user = member();
  const Jwt jwt(user_jwt(key, NatsSubjects("run"), {"ledger"}, user, kNow));
  EXPECT_TRUE(jwt.is_signed_by(key.account));
  EXPECT_EQ(decode(jwt.parts[0]), decode(encode_base64url(as_bytes(
                                      std::string_view(R"({"alg":"ed25519-nkey","typ":"JWT"})")))));
  EXPECT_EQ(jwt.claims["sub"], text_of(NKeyKind::kUser, user.key));
  EXPECT_EQ(jwt.claims["iss"], text_of(NKeyKind::kAccount, key.account));
  EXPECT_EQ(jwt.claims["iat"], kNow);
  EXPECT_FALSE(jwt.claims.contains("exp")) << "it lasts";
  const json& about = jwt.claims["nats"];
  EXPECT_EQ(about["type"], "user");
  EXPECT_FALSE(about.contains("issuer_account"));
  EXPECT_THAT(about["pub"]["allow"], Contains("run.say.me.*"));
  EXPECT_THAT(about["pub"]["allow"], testing::Not(Contains("run.log.ledger")));
  EXPECT_THAT(about["sub"]["allow"], Contains("_INBOX.me.>"));
  EXPECT_EQ(about["payload"], (256 << 10) + (4 << 10));
}

TEST(NatsJwt, ASigningKeyNamesItsAccountAndJwtsExpire) {
  AccountKey key = account();
  key.secret = make_seed();
  NatsUser user = member();
  user.expires = 2000;
  const Jwt jwt(user_jwt(key, NatsSubjects("run"), {}, user, kNow));
  EXPECT_FALSE(jwt.is_signed_by(key.account));
  EXPECT_TRUE(jwt.is_signed_by(make_signer(key.secret)->key()));
  EXPECT_EQ(jwt.claims["nats"]["issuer_account"], text_of(NKeyKind::kAccount, key.account));
  EXPECT_EQ(jwt.claims["exp"], 2000);
}

TEST(NatsJwt, NamesThatWouldBeOtherSubjectsAreErrors) {
  for (const char* name : {"", "*", ">", "a.b", "a b"}) {
    NatsUser user = member();
    user.name = name;
    EXPECT_THROW(user_jwt(account(), NatsSubjects("run"), {}, user, kNow), UsageError) << name;
    EXPECT_THROW(user_jwt(account(), NatsSubjects(name), {}, member(), kNow), UsageError) << name;
  }
}

TEST(NatsJwt, TheOperatorVouchesForItselfAndForAccounts) {
  const auto operator_key = make_signer(make_seed());
  const PublicKey system = account().account, runs = account().account;
  const Jwt own(operator_jwt(*operator_key, system, kNow));
  EXPECT_TRUE(own.is_signed_by(operator_key->key()));
  EXPECT_EQ(own.claims["sub"], own.claims["iss"]);
  EXPECT_EQ(own.claims["nats"]["system_account"], text_of(NKeyKind::kAccount, system));
  const Jwt of_runs(account_jwt(*operator_key, "runs", runs, system, kNow));
  EXPECT_TRUE(of_runs.is_signed_by(operator_key->key()));
  EXPECT_EQ(of_runs.claims["nats"]["limits"]["disk_storage"], -1);
  const json& imported = of_runs.claims["nats"]["imports"][0];
  EXPECT_EQ(imported["local_subject"], "thinwire.server.departure");
  EXPECT_EQ(imported["account"], text_of(NKeyKind::kAccount, system));
  const Jwt of_system(system_account_jwt(*operator_key, system, kNow));
  EXPECT_FALSE(of_system.claims["nats"]["limits"].contains("disk_storage"));
  EXPECT_EQ(of_system.claims["nats"]["exports"][0]["subject"], "$SYS.ACCOUNT.*.DISCONNECT");
}

}  // namespace
}  // namespace thinwire::transport
