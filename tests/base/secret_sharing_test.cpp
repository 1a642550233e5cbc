// Agreed keys, shares of secrets and key streams (secrets.h), against the figures of their RFCs and
// of Shamir's scheme worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/secrets.h"

namespace thinwire {
namespace {

Secret parse(const std::string& digits) {
  Secret secret{};
  for (size_t i = 0; i < secret.size(); ++i) {
    secret[i] = static_cast<uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  return secret;
}

// By a Montgomery ladder in Python that gives the figures of RFC 7748, section 5.2.
TEST(KeyPairCase, TwoAgreeAsTheRfcSays) {
  Secret first, second;
  std::iota(first.begin(), first.end(), uint8_t{0});
  std::iota(second.begin(), second.end(), uint8_t{1});
  const KeyPair one(first), other(second);
  EXPECT_EQ(one.key(), parse("8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f"));
  EXPECT_EQ(other.key(), parse("07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c"));
  const Secret agreed = parse("4274a32e953acb8314d0f09bcbcb5193c5ef799ddcd0036f8c4682e5801dac73");
  EXPECT_EQ(one.agree(other.key()), agreed);
  EXPECT_EQ(other.agree(one.key()), agreed);
  EXPECT_EQ(one.agree(AgreementKey{}), std::nullopt);
}

std::vector<SecretShare> some(const std::vector<Secret>& all, std::initializer_list<size_t> which) {
  std::vector<SecretShare> shares;
  for (const size_t index : which) shares.push_back({index, all[index]});
  return shares;
}

TEST(SecretShares, AsManyAsAreNeededGiveTheSecret) {
  const Secret secret = make_secret();
  const std::vector<Secret> all = share_secret(secret, 5, 3);
  EXPECT_EQ(combine_shares(some(all, {0, 1, 2})), secret);
  EXPECT_EQ(combine_shares(some(all, {4, 0, 2})), secret);
  EXPECT_EQ(combine_shares(some(all, {0, 1, 2, 3, 4})), secret);
}

TEST(SecretShares, FewerGiveAnother) {
  const Secret secret = make_secret();
  const std::vector<Secret> all = share_secret(secret, 5, 3);
  EXPECT_NE(combine_shares(some(all, {0, 1})), secret);
  EXPECT_NE(all[0], secret);
  EXPECT_NE(share_secret(secret, 5, 3), all) << "each time with other coefficients";
}

TEST(SecretShares, OneThatSufficesIsTheSecret) {
  const Secret secret = make_secret();
  EXPECT_EQ(share_secret(secret, 3, 1), std::vector(3, secret));
}

TEST(SecretShares, ThereMayBe255) {
  const Secret secret = make_secret();
  const std::vector<Secret> all = share_secret(secret, 255, 2);
  EXPECT_EQ(combine_shares(some(all, {0, 254})), secret);
  EXPECT_EQ(combine_shares(some(all, {127, 128})), secret);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 255);
}

// Two shares of the byte 7 are on a line: 7 + a x over GF(2^8). With x = 1 and 2 and the values 4
// and 1, a is 3.
TEST(SecretShares, AreOnAPolynomial) {
  Secret first{}, second{};
  first[0] = 4;
  second[0] = 1;
  const std::vector<SecretShare> shares = {{0, first}, {1, second}};
  EXPECT_EQ(combine_shares(shares)[0], 7);
}

// RFC 8439, section 2.3.2 has a block of another nonce; appendix A.1, vector 1, is key 0, nonce 0,
// block 0: 76 b8 e0 ad a0 f1 3d 90 ...
TEST(KeyStream, IsThatOfTheRfc) {
  std::vector<float> words(20);
  add_key_stream(Secret{}, 0, false, words);
  EXPECT_EQ(std::bit_cast<uint32_t>(words[0]), 0xade0b876u);
  EXPECT_EQ(std::bit_cast<uint32_t>(words[1]), 0x903df1a0u);
  // Vector 2: block 1 begins with 9f 07 e7 be.
  EXPECT_EQ(std::bit_cast<uint32_t>(words[16]), 0xbee7079fu);
}

TEST(KeyStream, PiecesAreThoseOfTheWhole) {
  const Secret key = make_secret();
  std::vector<float> whole(10'000), parts(10'000);
  add_key_stream(key, 0, false, whole);
  add_key_stream(key, 0, false, std::span(parts).first(4160));
  add_key_stream(key, 4160, false, std::span(parts).subspan(4160));
  EXPECT_TRUE(std::ranges::equal(as_bytes(std::span<const float>(whole)),
                                 as_bytes(std::span<const float>(parts))));
  add_key_stream(key, 0, true, whole);
  EXPECT_TRUE(
      std::ranges::all_of(whole, [](float word) { return std::bit_cast<uint32_t>(word) == 0; }));
}

}  // namespace
}  // namespace thinwire
