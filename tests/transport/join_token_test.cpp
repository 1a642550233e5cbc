#include "thinwire/transport/nats/join_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "thinwire/base/nkey.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {
namespace {

using testing::HasSubstr;

std::string run_name(uint8_t byte = 0x5a) {
  PublicKey key;
  key.bytes.fill(byte);
  return encode_public_key(NKeyKind::kUser, key);
}

Fingerprint fingerprint(uint8_t byte = 0xc3) {
  Fingerprint made;
  made.bytes.fill(byte);
  return made;
}

JoinToken token() {
  Seed secret{};
  std::fill_n(secret.begin(), 16, uint8_t{0xa5});
  return {.run = run_name(), .secret = secret, .authority_fingerprint = fingerprint()};
}

JoinToken mailbox_token() {
  JoinToken made = token();
  made.authority_fingerprint.reset();
  return made;
}

JoinToken cluster_token() {
  static const std::string authority = make_authority({0, 4'000'000'000}).certificate;
  Seed secret;
  secret.fill(0xa5);
  return {.run = "run-1",
          .secret = secret,
          .servers = {"host.example:4222", "b.example:4222", "c.example:4222"},
          .jwt = "eyJ0.eyJq-_.AbC",
          .authority = authority};
}

void expect_one_word(const std::string& text) {
  for (const char c : text) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) != 0) << c;
}

void expect_back(const JoinToken& token, const std::string& prefix) {
  const std::string text = encode_join_token(token);
  EXPECT_TRUE(text.starts_with(prefix)) << text;
  expect_one_word(text);
  const auto decoded = decode_join_token(text);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, token);
}

TEST(JoinToken, OneShortWordHoldsEverything) {
  expect_back(token(), "TW5");
  EXPECT_EQ(encode_join_token(token()).size(), 96U);
  expect_back(mailbox_token(), "TW6");
  EXPECT_EQ(encode_join_token(mailbox_token()).size(), 75U);
  for (const uint8_t byte : {0x00, 0x01, 0xff}) {
    JoinToken made = token();
    std::fill_n(made.secret.begin(), 16, byte);
    made.run = run_name(byte);
    made.authority_fingerprint = fingerprint(byte);
    expect_back(made, "TW5");
  }
}

// Made with Python's integers: int.from_bytes(content + sha256(content)[:4]) in base 58.
TEST(JoinToken, IsANumberInBase58) {
  EXPECT_EQ(encode_join_token(token()),
            "TW5NfwRk6KP1spqWqq4TqxtMzmPEfC8Wh4WJBXNyWUAh8HUmXUakwsgxs69iH3aKTgz2J81PSJ3S8qeESueKGT"
            "AXP2UmRhQU");
}

TEST(JoinToken, SecretsAreOf128RandomBits) {
  const Seed one = make_token_secret(), other = make_token_secret();
  EXPECT_NE(one, other);
  EXPECT_TRUE(is_token_secret(one));
  Seed longer = one;
  longer.back() = 1;
  EXPECT_FALSE(is_token_secret(longer));
  JoinToken wrong = token();
  wrong.secret = longer;
  EXPECT_THROW(encode_join_token(wrong), UsageError);
}

TEST(JoinToken, ThatOfAClusterHoldsAPassAndAllAddresses) {
  expect_back(cluster_token(), "TW2");
  JoinToken of_system = cluster_token();
  of_system.authority.clear();
  expect_back(of_system, "TW2");
  JoinToken of_sites = cluster_token();
  of_sites.sites = true;
  expect_back(of_sites, "TW4");
  of_sites.servers.resize(1);
  expect_back(of_sites, "TW4");
}

TEST(JoinToken, OneKindIsNotTakenForAnother) {
  for (const JoinToken& made : {token(), mailbox_token(), cluster_token()}) {
    const std::string text = encode_join_token(made);
    for (const std::string& prefix : {std::string("TW2"), std::string("TW5"), std::string("TW6")}) {
      if (text.starts_with(prefix)) continue;
      EXPECT_FALSE(decode_join_token(prefix + text.substr(3))) << prefix;
    }
  }
}

TEST(JoinToken, PassesAndAddressesOfAClusterThatCannotBeAreErrors) {
  for (const char* jwt : {"x", "a.b", "a.b.c.d", "a.b.c\n", "a.b.\x1b"}) {
    JoinToken wrong = cluster_token();
    wrong.jwt = jwt;
    EXPECT_THROW(encode_join_token(wrong), UsageError) << jwt;
  }
  for (const char* address :
       {"", "host", "host:", "host:0", "host:65536", ":1", "a b:1", "\x1b[31mhost:1", "host:1x"}) {
    JoinToken wrong = cluster_token();
    wrong.servers[1] = address;
    EXPECT_THROW(encode_join_token(wrong), UsageError) << address;
  }
  JoinToken wrong = cluster_token();
  wrong.servers.resize(65, "host:1");
  EXPECT_THROW(encode_join_token(wrong), UsageError);
  wrong.servers.clear();
  EXPECT_THROW(encode_join_token(wrong), UsageError);
}

TEST(JoinToken, BrokenLinesDoNotMatter) {
  std::string text = encode_join_token(token());
  text.insert(80, "\r\n  ");
  EXPECT_TRUE(decode_join_token("  " + text + "\n"));
}

TEST(JoinToken, EveryAlteredOrMissingLetterIsNoticed) {
  for (const JoinToken& made : {token(), mailbox_token(), cluster_token()}) {
    const std::string text = encode_join_token(made);
    for (size_t i = 0; i < text.size(); ++i) {
      std::string altered = text;
      altered[i] = altered[i] == 'A' ? 'B' : 'A';
      EXPECT_FALSE(decode_join_token(altered)) << i;
      EXPECT_FALSE(decode_join_token(text.substr(0, i))) << i;
      altered[i] = '0';  // no digit of either kind
      EXPECT_FALSE(decode_join_token(altered)) << i;
    }
  }
}

TEST(JoinToken, AFailureSaysWhatATokenLooksLikeAndNothingOfTheSecret) {
  const std::string text = encode_join_token(token());
  const auto decoded = decode_join_token(text.substr(0, text.size() - 3));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("begins with TW5"));
  EXPECT_THAT(decoded.error().message, testing::Not(HasSubstr(text.substr(10, 8))));
}

TEST(JoinToken, ThoseOfOlderVersionsAreNamedAsSuch) {
  for (const char* old : {"TW1ABCDEF", "TW3ABCDEF"}) {
    const auto decoded = decode_join_token(old);
    ASSERT_FALSE(decoded);
    EXPECT_THAT(decoded.error().message, HasSubstr("older version"));
  }
}

TEST(JoinToken, RunsThatCannotBeAreErrors) {
  JoinToken wrong = token();
  wrong.run = "run-1";
  EXPECT_THROW(encode_join_token(wrong), UsageError);
  wrong = cluster_token();
  wrong.run = "a.b";
  EXPECT_THROW(encode_join_token(wrong), UsageError);
}

}  // namespace
}  // namespace thinwire::transport
