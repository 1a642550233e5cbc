#include "thinwire/hosts/key_ring.h"

#include <gmock/gmock.h>

#include "../tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/hosts/request_handler.h"
#include "thinwire/hosts/served_run.h"

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

TEST(KeyRing, NobodyEnrolsInAnotherRoleThanTheTokens) {
  const PublicKey token = fresh_key(), key = fresh_key();
  KeyRing ring = ring_with({.key = token, .role = Role::kObserver, .single_use = true});
  const std::string why = ring.enrol(token, key, kNow, Role::kMember);
  EXPECT_THAT(why, testing::HasSubstr("the token " + key_id(token) +
                                      " is an observer's: it only "
                                      "shows the run, with `thinwire status`"));
  EXPECT_TRUE(ring.keys.empty()) << "it is not used up";
  EXPECT_EQ(ring.enrol(token, key, kNow, Role::kObserver), "");
  EXPECT_THAT(ring.enrol(token, key, kNow, Role::kAuditor),
              testing::HasSubstr("the key " + key_id(key) + " is an observer's"));
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

TEST(KeyRing, AKeyIsCalledByItsIdOrItsWholeName) {
  const PublicKey key = fresh_key();
  const std::string id = key_id(key);
  EXPECT_EQ(id.size(), 10u);
  EXPECT_TRUE(participant_name(key).starts_with("U" + id));
  for (const std::string& text : {id, id.substr(0, 5), participant_name(key)}) {
    KeyRing ring = ring_with({.key = key});
    EXPECT_EQ(ring.revoke(text), 1u) << text;
  }
  KeyRing ring = ring_with({.key = key});
  EXPECT_EQ(ring.revoke("V" + id), 0u);
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
    EXPECT_EQ(users[1].name, participant_name(key));
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

TEST(KeyRing, SaysWhichMemberAKeyBelongsTo) {
  const fs::path folder = test_folder();
  fs::create_directories(folder / kServerFolder);
  RunKeys keys(folder, /*token_days=*/0);
  const PublicKey token = make_signer(keys.token())->key(), key = fresh_key();
  ASSERT_TRUE(keys.enrol(token, fresh_key(), Role::kMember, ""));
  ASSERT_TRUE(keys.enrol(token, key, Role::kMember, "alice"));
  std::vector<membership::Member> members(2);
  members[1].key = key;
  keys.number(members);
  const KeyRing ring = load_key_ring(folder);
  ASSERT_EQ(ring.keys.size(), 2u);
  EXPECT_EQ(ring.keys[0].member, -1) << "it has not joined";
  EXPECT_EQ(ring.keys[1].member, 1);
  EXPECT_EQ(keys.machine_of(key), "") << "not read again yet";
  EXPECT_TRUE(keys.update());
  EXPECT_EQ(keys.machine_of(key), "alice");
}

// Observers connect to the run's server, too.
TEST(KeyRing, RowsAreForMembersAndAuditorsOnly) {
  const fs::path folder = test_folder();
  fs::create_directories(folder / kServerFolder);
  RunKeys keys(folder, /*token_days=*/0);
  const PublicKey member = fresh_key(), auditor = fresh_key(), observer = fresh_key();
  ASSERT_TRUE(keys.enrol(make_signer(keys.token())->key(), member, Role::kMember, ""));
  update_key_ring(folder, [&](KeyRing& ring) {
    for (const auto& [key, role] :
         {std::pair{auditor, Role::kAuditor}, {observer, Role::kObserver}}) {
      const IssuedToken token = make_token(fresh_key(), role, 0, kNow);
      ring.tokens.push_back(token);
      EXPECT_EQ(ring.enrol(token.key, key, kNow), "");
    }
  });
  ASSERT_TRUE(keys.update());
  EXPECT_EQ(keys.why_no_data(member), "");
  EXPECT_EQ(keys.why_no_data(auditor), "");
  for (const PublicKey& key : {observer, fresh_key()}) {
    EXPECT_EQ(keys.why_no_data(key), "its key is not enrolled as a member's");
  }
  keys.revoke(member);
  ASSERT_TRUE(keys.update());
  EXPECT_EQ(keys.why_no_data(member), "its key was revoked");
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
