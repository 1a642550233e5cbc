#include "thinwire/hosts/cluster.h"

#include <gmock/gmock.h>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using transport::AccountKey;

AccountKey account() {
  const Seed seed = make_seed();
  return {make_signer(seed)->key(), seed};
}

std::string why_not_servers(const std::string& urls) {
  return error_of([&] { parse_servers(urls); });
}

std::string why_not_key(const std::string& text) {
  return error_of([&] { parse_account_key(text); });
}

TEST(Cluster, ServersAreUrlsOrAddresses) {
  EXPECT_THAT(
      parse_servers("tls://a.example:4333,nats://b.example,10.0.0.1:1,[::1],[::1]:5"),
      ElementsAre("a.example:4333", "b.example:4222", "10.0.0.1:1", "[::1]:4222", "[::1]:5"));
  for (const char* urls : {"", ",", "a:b", "a:0", "a:65536", "https://a", ":4222", "a,,b"}) {
    EXPECT_THAT(why_not_servers(urls), HasSubstr("--nats")) << urls;
  }
  EXPECT_THAT(why_not_servers("nats://me:secret@a"),
              testing::AllOf(HasSubstr("--creds"), testing::Not(HasSubstr("secret"))));
}

TEST(Cluster, AnAccountsKeyIsItsSeed) {
  const AccountKey key = account();
  EXPECT_EQ(parse_account_key(encode_seed(NKeyKind::kAccount, key.secret)), key);
  EXPECT_EQ(parse_account_key(print_account_key(key, "a comment")), key);
}

TEST(Cluster, ASigningKeyGoesWithItsAccount) {
  AccountKey key = account();
  key.secret = make_seed();
  EXPECT_EQ(parse_account_key(print_account_key(key, "a comment")), key);
}

TEST(Cluster, OtherFilesAreRefusedWithWhatIsWanted) {
  const std::string user = encode_seed(NKeyKind::kUser, make_seed());
  EXPECT_THAT(why_not_key("-----BEGIN USER NKEY SEED-----\n" + user),
              testing::AllOf(HasSubstr("credentials of a user"), HasSubstr("begins with SA"),
                             testing::Not(HasSubstr(user))));
  for (const std::string& text :
       {std::string(), "# " + encode_seed(NKeyKind::kAccount, make_seed()),
        encode_public_key(NKeyKind::kAccount, account().account)}) {
    EXPECT_THAT(why_not_key(text), HasSubstr("there is no seed")) << text;
  }
}

TEST(Cluster, AllCoordinatorsOfARunHaveOneKeyAndOtherRunsOthers) {
  const AccountKey key = account();
  const Seed seed = coordinators_seed(key, 7, "name");
  EXPECT_EQ(coordinators_seed(key, 7, "name"), seed);
  EXPECT_NE(coordinators_seed(key, 8, "name"), seed);
  EXPECT_NE(coordinators_seed(key, 7, "other"), seed);
  EXPECT_NE(coordinators_seed(account(), 7, "name"), seed);
}

TEST(ClusterAccounts, AreAddedToOneOperator) {
  const fs::path folder = test_folder() / "cluster";
  const ClusterAccount one = add_account(folder, "one");
  const std::string operators_key = read_text_file(folder / "operator.key");
  const ClusterAccount two = add_account(folder, "two");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_EQ(read_text_file(folder / "operator.key"), operators_key);
  const AccountKey first = parse_account_key(read_text_file(one.key));
  const AccountKey second = parse_account_key(read_text_file(two.key));
  EXPECT_NE(first.account, second.account);
  const std::string text = read_text_file(two.configuration);
  for (const AccountKey& key : {first, second}) {
    EXPECT_THAT(text, HasSubstr(encode_public_key(NKeyKind::kAccount, key.account)));
    EXPECT_THAT(text, testing::Not(HasSubstr(encode_seed(NKeyKind::kAccount, key.secret))));
  }
}

TEST(ClusterAccounts, NamesThatAreTakenOrCannotBeAreErrors) {
  const fs::path folder = test_folder() / "cluster";
  add_account(folder, "one");
  for (const char* name : {"one", "operator", "SYS"}) {
    EXPECT_THAT(error_of([&] { add_account(folder, name); }), HasSubstr(name));
  }
  EXPECT_THROW(add_account(folder, "../one"), UsageError);
}

}  // namespace
}  // namespace thinwire::hosts
