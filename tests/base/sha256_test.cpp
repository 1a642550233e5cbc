#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"
#include "thinwire/base/commit.h"
#include "thinwire/base/digest.h"

namespace thinwire {
namespace {

// The examples of FIPS 180-4 and the published hash of no bytes.
TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(as_bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, IsReadFromItsDigitsAndFromNothingElse) {
  const Sha256 hash = sha256(as_bytes("abc"));
  const std::string digits = to_hex(hash);
  EXPECT_EQ(parse_sha256(digits), hash);
  std::string capital = digits;
  capital[0] = 'B';
  std::string strange = digits;
  strange[63] = 'g';
  for (const std::string& text :
       {std::string(), digits.substr(1), digits + "0", capital, strange}) {
    EXPECT_EQ(parse_sha256(text), std::nullopt) << text;
  }
}

TEST(Commit, ScaleIsOneOverTheCommittedWeight) {
  EXPECT_EQ(commit_scale({}), 0.0f);
  const auto of_weight = [](uint64_t weight) { return Contribution{0, 0, {}, 0, weight}; };
  EXPECT_EQ(commit_scale({of_weight(2), of_weight(6)}), 0.125f);
  EXPECT_EQ(commit_scale({of_weight(3)}), 0x1.555556p-2f);  // 1/3, rounded once from float64
}

TEST(Commit, ScalesAreComparedByTheirBits) {
  Commit plus;
  Commit minus = plus;
  minus.scale = -0.0f;
  EXPECT_EQ(plus, plus);
  EXPECT_FALSE(plus == minus);
}

}  // namespace
}  // namespace thinwire
