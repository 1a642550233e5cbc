// Compares with tests/golden/nkeys.json, which tests/golden/make_nkeys.py made.
#include "thinwire/base/nkey.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/paths.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"

namespace thinwire {
namespace {

Bytes bytes_in(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

template <size_t N>
std::array<uint8_t, N> array_of(const std::string& hex) {
  std::array<uint8_t, N> all{};
  std::ranges::copy(bytes_in(hex), all.begin());
  return all;
}

nlohmann::json users() {
  return parse_json<nlohmann::json>(
      read_text_file(tests::source_file("tests/golden/nkeys.json")))["users"];
}

TEST(NKey, TextIsThatOfNats) {
  for (const auto& user : users()) {
    const Seed seed = array_of<32>(user["seed"]);
    const PublicKey key{array_of<32>(user["public"])};
    EXPECT_EQ(make_signer(seed)->key(), key);
    EXPECT_EQ(encode_seed(NKeyKind::kUser, seed), user["seed_text"].get<std::string>());
    EXPECT_EQ(encode_public_key(NKeyKind::kUser, key), user["public_text"].get<std::string>());
    EXPECT_EQ(decode_seed(NKeyKind::kUser, user["seed_text"].get<std::string>()), seed);
    EXPECT_EQ(decode_public_key(NKeyKind::kUser, user["public_text"].get<std::string>()), key);
  }
}

TEST(NKey, OtherKindsAndDamageAreRefused) {
  const auto text = users()[0]["public_text"].get<std::string>();
  EXPECT_FALSE(decode_public_key(NKeyKind::kAccount, text));
  EXPECT_FALSE(decode_seed(NKeyKind::kUser, text));
  EXPECT_FALSE(decode_public_key(NKeyKind::kUser, ""));
  EXPECT_FALSE(decode_public_key(NKeyKind::kUser, text.substr(1)));
  EXPECT_FALSE(decode_public_key(NKeyKind::kUser, text + "A"));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(decode_public_key(NKeyKind::kUser, damaged)) << i;
  }
}

// RFC 4648, section 10.
TEST(Base32, IsThatOfTheStandard) {
  EXPECT_EQ(encode_base32(as_bytes("foobar")), "MZXW6YTBOI");
  EXPECT_EQ(encode_base32(as_bytes("f")), "MY");
  EXPECT_EQ(decode_base32("MZXW6YQ"), (Bytes{'f', 'o', 'o', 'b'}));
  EXPECT_EQ(decode_base32(""), Bytes());
}

TEST(Base32, OneTextForOneValueOnly) {
  EXPECT_FALSE(decode_base32("MZ"));   // bits that stand for nothing
  EXPECT_FALSE(decode_base32("MYA"));  // a digit too many
  EXPECT_FALSE(decode_base32("my"));
  EXPECT_FALSE(decode_base32("MY======"));
}

// "123456789", the usual check of a CRC.
TEST(Base32, Crc16IsXmodems) { EXPECT_EQ(crc16(as_bytes("123456789")), 0x31c3); }

}  // namespace
}  // namespace thinwire
