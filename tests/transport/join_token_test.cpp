#include "thinwire/transport/nats/join_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {
namespace {

using testing::HasSubstr;

JoinToken token() {
  static const std::string authority = make_authority({0, 4'000'000'000}).certificate;
  Seed secret;
  secret.fill(0xa5);
  return {"host.example:4222", "run-1", authority, secret};
}

TEST(JoinToken, OneStringHoldsEverything) {
  const std::string text = encode_join_token(token());
  EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), text.npos);
  const auto decoded = decode_join_token(text);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, token());
}

JoinToken cluster_token() {
  JoinToken made = token();
  made.more_addresses = {"b.example:4222", "c.example:4222"};
  made.jwt = "eyJ0.eyJq-_.AbC";
  return made;
}

TEST(JoinToken, ThatOfAClusterHoldsAPassAndAllAddresses) {
  for (const bool own_authority : {true, false}) {
    JoinToken made = cluster_token();
    if (!own_authority) made.authority.clear();
    const std::string text = encode_join_token(made);
    EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), text.npos);
    const auto decoded = decode_join_token(text);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, made);
    EXPECT_FALSE(decode_join_token("TW1" + text.substr(3))) << "as a token of the other kind";
  }
  EXPECT_FALSE(decode_join_token("TW2" + encode_join_token(token()).substr(3)));
}

TEST(JoinToken, ThatOfARunWhoseServersAreSitesSaysSo) {
  JoinToken made = cluster_token();
  made.sites = true;
  const std::string text = encode_join_token(made);
  EXPECT_TRUE(text.starts_with("TW4"));
  const auto decoded = decode_join_token(text);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, made);
  EXPECT_FALSE(decode_join_token("TW4" + encode_join_token(token()).substr(3)));
  made.jwt.clear();
  EXPECT_THROW(encode_join_token(made), UsageError);
}

TEST(JoinToken, ThatOfAMailboxHoldsTheRunAndTheSecret) {
  const JoinToken made{"", "run-1", "", token().secret};
  const std::string text = encode_join_token(made);
  EXPECT_TRUE(text.starts_with("TW3"));
  const auto decoded = decode_join_token(text);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, made);
  for (const char* prefix : {"TW1", "TW2"})
    EXPECT_FALSE(decode_join_token(prefix + text.substr(3)));
  EXPECT_FALSE(decode_join_token("TW3" + encode_join_token(token()).substr(3)));
  EXPECT_FALSE(decode_join_token(text.substr(0, text.size() - 3)));
  EXPECT_THROW(encode_join_token({"", "a b", "", made.secret}), UsageError);
}

TEST(JoinToken, PassesAndAddressesOfAClusterThatCannotBeAreErrors) {
  for (const char* jwt : {"x", "a.b", "a.b.c.d", "a.b.c\n", "a.b.\x1b"}) {
    JoinToken wrong = cluster_token();
    wrong.jwt = jwt;
    EXPECT_THROW(encode_join_token(wrong), UsageError) << jwt;
  }
  JoinToken wrong = cluster_token();
  wrong.more_addresses[1] = "host";
  EXPECT_THROW(encode_join_token(wrong), UsageError);
  wrong = cluster_token();
  wrong.more_addresses.resize(64, "host:1");
  EXPECT_THROW(encode_join_token(wrong), UsageError);
}

TEST(JoinToken, BrokenLinesDoNotMatter) {
  std::string text = encode_join_token(token());
  text.insert(80, "\r\n  ");
  EXPECT_TRUE(decode_join_token("  " + text + "\n"));
}

TEST(JoinToken, EveryAlteredOrMissingLetterIsNoticed) {
  const std::string text = encode_join_token(token());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string altered = text;
    altered[i] = altered[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(decode_join_token(altered)) << i;
    EXPECT_FALSE(decode_join_token(text.substr(0, i))) << i;
  }
}

TEST(JoinToken, AFailureSaysWhatATokenLooksLikeAndNothingOfTheSecret) {
  const std::string text = encode_join_token(token());
  const auto decoded = decode_join_token(text.substr(0, text.size() - 3));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("begins with TW1"));
  EXPECT_THAT(decoded.error().message, testing::Not(HasSubstr(text.substr(10, 8))));
}

TEST(JoinToken, AddressesAndRunsThatCannotBeAreErrors) {
  for (const char* address :
       {"", "host", "host:", "host:0", "host:65536", ":1", "a b:1", "\x1b[31mhost:1", "host:1x"}) {
    JoinToken wrong = token();
    wrong.address = address;
    EXPECT_THROW(encode_join_token(wrong), UsageError) << address;
  }
  JoinToken wrong = token();
  wrong.run = "a.b";
  EXPECT_THROW(encode_join_token(wrong), UsageError);
}

}  // namespace
}  // namespace thinwire::transport
