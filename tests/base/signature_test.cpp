#include "thinwire/base/signature.h"

#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"

namespace thinwire {
namespace {

template <size_t N>
std::array<uint8_t, N> from_hex(std::string_view text) {
  std::array<uint8_t, N> bytes{};
  for (size_t i = 0; i < N; ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoi(std::string(text.substr(2 * i, 2)), nullptr, 16));
  }
  return bytes;
}

// RFC 8032, section 7.1, tests 1 and 3.
TEST(Signature, IsThatOfTheStandard) {
  const auto empty =
      make_signer(from_hex<32>("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"));
  EXPECT_EQ(empty->key().bytes,
            from_hex<32>("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
  EXPECT_EQ(empty->sign({}).bytes,
            from_hex<64>("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                         "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"));
  const auto two =
      make_signer(from_hex<32>("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"));
  EXPECT_EQ(two->sign(Bytes{0xaf, 0x82}).bytes,
            from_hex<64>("6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                         "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"));
}

TEST(Signature, VerifiesItsOwnMessageAndKeyOnly) {
  const auto signer = make_signer(make_seed());
  const auto other = make_signer(make_seed());
  const Bytes message = {1, 2, 3};
  Signature signature = signer->sign(message);
  EXPECT_TRUE(verify(signer->key(), message, signature));
  EXPECT_FALSE(verify(other->key(), message, signature));
  EXPECT_FALSE(verify(signer->key(), Bytes{1, 2, 4}, signature));
  signature.bytes[40] ^= 1;
  EXPECT_FALSE(verify(signer->key(), message, signature));
}

TEST(Signature, AKeyThatIsNoPointVerifiesNothing) {
  PublicKey no_point;
  no_point.bytes.fill(0xff);
  EXPECT_FALSE(verify(no_point, Bytes{1}, Signature()));
}

}  // namespace
}  // namespace thinwire
