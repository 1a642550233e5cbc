#include "thinwire/transport/nats/nats_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"

namespace thinwire::transport {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr const char* kElections = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.*";

NatsSettings settings() { return {.folder = "/some/where", .run = "r", .streams = {"ledger"}}; }

NatsUser user(const std::string& name, NatsRole role) {
  return {name, make_signer(make_seed())->key(), role};
}

// But the first, whom nobody can be.
json users_of(std::span<const NatsUser> users, int64_t now = 0) {
  json all =
      parse_json<json>(nats_configuration(settings(), users, now))["accounts"]["RUN"]["users"];
  EXPECT_EQ(all[0]["permissions"]["publish"]["deny"], ">");
  EXPECT_EQ(all[0]["permissions"]["subscribe"]["deny"], ">");
  all.erase(0);
  return all;
}

json allowed(NatsRole role, const char* what) {
  return users_of({{user("me", role)}})[0]["permissions"][what]["allow"];
}

TEST(NatsConfig, MembersPublishUnderTheirOwnNamesOnly) {
  EXPECT_THAT(
      allowed(NatsRole::kMember, "publish"),
      UnorderedElementsAre("r.say.me.*", "r.blob.me.*.*", "$JS.API.DIRECT.GET.r-blobs.r.blob.*.*.*",
                           "$JS.API.DIRECT.GET.r-log-ledger", "$JS.API.STREAM.INFO.r-log-ledger"));
  EXPECT_THAT(allowed(NatsRole::kMember, "subscribe"),
              UnorderedElementsAre("_INBOX.me.>", "r.say.*.*", "r.kept.*", kElections));
}

TEST(NatsConfig, NewcomersAndObserversMayLess) {
  EXPECT_THAT(allowed(NatsRole::kNewcomer, "publish"), ElementsAre("r.say.me.*"));
  EXPECT_THAT(allowed(NatsRole::kNewcomer, "subscribe"),
              UnorderedElementsAre("_INBOX.me.>", "r.say.*.me", kElections));
  EXPECT_THAT(allowed(NatsRole::kObserver, "publish"),
              ElementsAre("$JS.API.DIRECT.GET.r-log-ledger", "$JS.API.STREAM.INFO.r-log-ledger"));
}

TEST(NatsConfig, AuditorsStoreNothing) {
  EXPECT_THAT(
      allowed(NatsRole::kAuditor, "publish"),
      UnorderedElementsAre("r.say.me.*", "$JS.API.DIRECT.GET.r-blobs.r.blob.*.*.*",
                           "$JS.API.DIRECT.GET.r-log-ledger", "$JS.API.STREAM.INFO.r-log-ledger"));
}

TEST(NatsConfig, OnlyCoordinatorsHearWhoseConnectionBeganOrEnded) {
  const json all = json::parse(nats_configuration(settings(), {}, 0))["accounts"];
  const std::vector<std::string> subjects = {"thinwire.server.arrival",
                                             "thinwire.server.departure"};
  EXPECT_FALSE(all["SERVER"].contains("users"));
  for (size_t i = 0; i < subjects.size(); ++i) {
    EXPECT_EQ(all["RUN"]["imports"][i]["to"], subjects[i]);
    EXPECT_EQ(all["RUN"]["imports"][i]["stream"]["subject"], all["SERVER"]["exports"][i]["stream"]);
    for (const NatsRole role : {NatsRole::kMember, NatsRole::kObserver, NatsRole::kAuditor}) {
      EXPECT_THAT(allowed(role, "subscribe"), testing::Not(testing::Contains(subjects[i])));
    }
    EXPECT_THAT(allowed(NatsRole::kCoordinator, "subscribe"), testing::Contains(subjects[i]));
  }
}

TEST(NatsConfig, OnlyCoordinatorsAppend) {
  const json coordinator = allowed(NatsRole::kCoordinator, "publish");
  EXPECT_THAT(coordinator, testing::Contains("r.log.ledger"));
  EXPECT_THAT(coordinator, testing::Contains("$JS.API.STREAM.PURGE.r-blobs"));
}

TEST(NatsPermissions, WhereServersAreSitesEachHolderHasAStore) {
  const NatsSubjects subjects("r", true);
  const auto publish = [&](NatsRole role) {
    return permissions_of(user("me", role), subjects, {}).publish;
  };
  EXPECT_THAT(
      publish(NatsRole::kMember),
      UnorderedElementsAre("r.say.me.*", "r.blob.me.*.*", "$JS.API.DIRECT.GET.*.r.blob.*.*.*"));
  EXPECT_THAT(publish(NatsRole::kAuditor),
              UnorderedElementsAre("r.say.me.*", "$JS.API.DIRECT.GET.*.r.blob.*.*.*"));
  EXPECT_THAT(publish(NatsRole::kCoordinator),
              testing::IsSupersetOf({"$JS.API.STREAM.CREATE.*", "$JS.API.STREAM.INFO.*",
                                     "$JS.API.STREAM.PURGE.*", "$JS.API.STREAM.LIST"}));
  EXPECT_EQ(subjects.get_chunk("me", "x"), "$JS.API.DIRECT.GET.r-blobs-me.r.blob.me.x");
  EXPECT_EQ(NatsSubjects("r").get_chunk("me", "x"), "$JS.API.DIRECT.GET.r-blobs.r.blob.me.x");
}

TEST(NatsConfig, UsersThatExpiredOrWereRevokedAreLeftOut) {
  std::vector<NatsUser> users = {user("a", NatsRole::kMember), user("b", NatsRole::kMember),
                                 user("c", NatsRole::kMember)};
  users[0].expires = 100;
  users[1].revoked = true;
  EXPECT_EQ(users_of(users, 99).size(), 2u);
  const json left = users_of(users, 100);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]["nkey"], encode_public_key(NKeyKind::kUser, users[2].key));
}

TEST(NatsConfig, EveryConnectionIsEncryptedAndBounded) {
  const json all = parse_json<json>(nats_configuration(settings(), {}, 0));
  EXPECT_EQ(all["tls"]["cert_file"], "/some/where/server.pem");
  EXPECT_EQ(all["tls"]["timeout"], 5.0);
  EXPECT_EQ(all["authorization"]["timeout"], 5.0);
  EXPECT_EQ(all["max_payload"], (256 << 10) + (4 << 10));
  EXPECT_EQ(all["max_connections"], 2000);
  EXPECT_EQ(all["ping_interval"], "10000ms");
}

TEST(NatsConfig, ConnectionsLeaveFilesForTheStore) {
  EXPECT_EQ(connections_within(1024), 824);
  EXPECT_EQ(connections_within(400), 200);
  EXPECT_EQ(connections_within(256), 128) << "the rest is fewer than 200";
  EXPECT_EQ(connections_within(0), 1);
  EXPECT_EQ(connections_within(UINT64_MAX), std::numeric_limits<int>::max()) << "no limit";
}

TEST(NatsConfig, NamesThatWouldBeOtherSubjectsAreErrors) {
  for (const char* name : {"", "*", ">", "a.b", "a b"}) {
    const NatsUser wrong = user(name, NatsRole::kMember);
    EXPECT_THROW(users_of({{wrong}}), UsageError) << name;
  }
}

}  // namespace
}  // namespace thinwire::transport
