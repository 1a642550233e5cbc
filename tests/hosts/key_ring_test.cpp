#include "thinwire/hosts/key_ring.h"

#include <gmock/gmock.h>

#include "../tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr int64_t kNow = 1000;

PublicKey fresh_key() { return make_signer(make_seed())->key(); }

KeyRing ring_with(const IssuedToken& token) {
  KeyRing ring;
  ring.tokens.push_back(token);
  return ring;
}

TEST(KeyRing, AReusableTokenEnrolsAsManyAsCome) {
  const PublicKey token = fresh_key();
  KeyRing ring = ring_with({.key = token, .role = Role::kObserver});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.enrol(token, fresh_key(), kNow), "");
  ASSERT_EQ(ring.keys.size(), 3u);
  EXPECT_EQ(ring.keys[2].role, Role::kObserver);
}

TEST(KeyRing, ASingleUseTokenEnrolsOneKeyHoweverOftenItAsks) {
  const PublicKey token = fresh_key();
  const PublicKey key = fresh_key();
  KeyRing ring = ring_with({.key = token, .single_use = true});
  EXPECT_EQ(ring.enrol(token, key, kNow), "");
  EXPECT_EQ(ring.enrol(token, key, kNow), "");
  EXPECT_EQ(ring.enrol(token, fresh_key(), kNow), "the token has been used");
  EXPECT_EQ(ring.keys.size(), 1u);
}

TEST(KeyRing, ATokenThatIsExpiredRevokedOrUnknownEnrolsNobody) {
  const PublicKey token = fresh_key();
  KeyRing expired = ring_with({.key = token, .expires = kNow});
  EXPECT_EQ(expired.enrol(token, fresh_key(), kNow), "the token has expired");
  EXPECT_EQ(expired.enrol(token, fresh_key(), kNow - 1), "");
  KeyRing revoked = ring_with({.key = token, .revoked = true});
  EXPECT_EQ(revoked.enrol(token, fresh_key(), kNow), "the token was revoked");
  EXPECT_EQ(revoked.enrol(fresh_key(), fresh_key(), kNow), "the token does not belong to this run");
}

TEST(KeyRing, RevokingATokenShutsOutWhoeverEnrolledWithIt) {
  const PublicKey token = fresh_key();
  const PublicKey other = fresh_key();
  KeyRing ring = ring_with({.key = token});
  ring.tokens.push_back({.key = other});
  const PublicKey key = fresh_key();
  EXPECT_EQ(ring.enrol(token, key, kNow), "");
  EXPECT_EQ(ring.enrol(other, fresh_key(), kNow), "");
  EXPECT_EQ(ring.revoke(key_id(token)), 2u);
  EXPECT_TRUE(ring.tokens[0].revoked && ring.keys[0].revoked);
  EXPECT_FALSE(ring.tokens[1].revoked || ring.keys[1].revoked);
  EXPECT_EQ(ring.enrol(other, key, kNow), "the key was revoked");
}

TEST(KeyRing, TheServerKnowsTokensAsNewcomersAndKeysByTheirRole) {
  using transport::NatsRole;
  for (const auto& [role, expected] : {std::pair(Role::kMember, NatsRole::kMember),
                                       std::pair(Role::kObserver, NatsRole::kObserver),
                                       std::pair(Role::kAuditor, NatsRole::kAuditor)}) {
    const PublicKey token = fresh_key();
    KeyRing ring = ring_with({.key = token, .role = role, .expires = 5000});
    const PublicKey key = fresh_key();
    ASSERT_EQ(ring.enrol(token, key, kNow), "");
    const auto users = ring.users();
    ASSERT_EQ(users.size(), 2u);
    EXPECT_EQ(users[0].role, NatsRole::kNewcomer);
    EXPECT_EQ(users[0].expires, 5000);
    EXPECT_EQ(users[1].name, transport::participant_name(key));
    EXPECT_EQ(users[1].role, expected);
  }
}

TEST(KeyRing, ComesBackFromItsFileAndSaysWhenItWasChanged) {
  const fs::path folder = test_folder();
  EXPECT_EQ(load_key_ring(folder), KeyRing{});
  KeyRing made;
  update_key_ring(folder, [&](KeyRing& ring) {
    const PublicKey token = fresh_key();
    ring.tokens.push_back({token, Role::kMember, kNow, 5000, true, false});
    ASSERT_EQ(ring.enrol(token, fresh_key(), kNow), "");
    made = ring;
  });
  EXPECT_EQ(load_key_ring(folder), made);
  const uint64_t before = key_ring_stamp(folder);
  EXPECT_EQ(key_ring_stamp(folder), before);
  update_key_ring(folder, [](KeyRing& ring) { ring.tokens[0].revoked = true; });
  EXPECT_NE(key_ring_stamp(folder), before);
  EXPECT_TRUE(load_key_ring(folder).tokens[0].revoked);
}

TEST(KeyRing, RingsOfOneRunAreMergedWhateverTheirOrder) {
  const PublicKey token = fresh_key();
  KeyRing here = ring_with({.key = token});
  KeyRing there = here;
  ASSERT_EQ(here.enrol(token, fresh_key(), kNow), "");
  ASSERT_EQ(there.enrol(token, fresh_key(), kNow), "");
  there.tokens.push_back({.key = fresh_key()});
  here.tokens[0].revoked = true;
  EXPECT_EQ(here.beyond(here), KeyRing{});
  const KeyRing reports = here.beyond(there);
  EXPECT_EQ(reports.tokens.size(), 1u) << "revoked here only";
  EXPECT_EQ(reports.keys.size(), 1u);
  KeyRing both = there;
  both.merge(reports);
  EXPECT_EQ(here.beyond(both), KeyRing{});
  EXPECT_TRUE(both.tokens[0].revoked);
  both.merge(there);
  EXPECT_TRUE(both.tokens[0].revoked) << "nothing is taken back";
  EXPECT_EQ(both.keys.size(), 2u);
  EXPECT_EQ(both.tokens.size(), 2u);
}

TEST(KeyRing, ADamagedFileIsNamed) {
  const fs::path folder = test_folder();
  write_file(folder / "keys.json", R"({"format": "thinwire-keys", "version": 1, "tokens": [1]})");
  try {
    (void)load_key_ring(folder);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("keys.json is damaged"));
  }
}

}  // namespace
}  // namespace thinwire::hosts
