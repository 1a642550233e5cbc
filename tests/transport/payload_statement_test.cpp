// Compares with tests/golden/nkeys.json, which tests/golden/make_nkeys.py made.
#include "thinwire/transport/courier/payload_statement.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hex.h"
#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"

namespace thinwire::transport {
namespace {

constexpr uint64_t kMost = 1000;

struct Golden {
  std::unique_ptr<Signer> signer;
  PayloadStatement statement;
  Bytes bytes;
};

Golden golden() {
  const auto json = parse_json<nlohmann::json>(
      read_text_file(tests::source_file("tests/golden/nkeys.json")))["statement"];
  return {make_signer(array_of<32>(json["seed"])),
          {{json["run"], json["epoch"], json["round"], json["fragment"]},
           json["member"],
           {{array_of<32>(json["payload"])}, json["length"]}},
          bytes_in(json["bytes"])};
}

FindKey only(int member, const PublicKey& key) {
  return [=](int asked) { return asked == member ? std::optional(key) : std::nullopt; };
}

TEST(PayloadStatement, BytesAreAsDocumented) {
  const Golden given = golden();
  EXPECT_EQ(encode_payload_statement(given.statement, *given.signer), given.bytes);
  const auto decoded = decode_payload_statement(given.bytes, only(3, given.signer->key()), kMost);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, given.statement);
}

TEST(PayloadStatement, EveryAlteredByteIsNoticed) {
  const Golden given = golden();
  const FindKey anybody = [&](int) { return given.signer->key(); };
  for (size_t i = 0; i < given.bytes.size(); ++i) {
    Bytes altered = given.bytes;
    altered[i] ^= 0x40;
    EXPECT_FALSE(decode_payload_statement(altered, anybody, kMost)) << i;
  }
  for (const size_t size : {size_t{0}, given.bytes.size() - 1}) {
    EXPECT_FALSE(decode_payload_statement(std::span(given.bytes).first(size), anybody, kMost));
  }
}

// Another member has signed it, or nobody of that number takes part.
TEST(PayloadStatement, ForgedAndUnknownSendersAreRefused) {
  const Golden given = golden();
  const auto other = make_signer(make_seed());
  EXPECT_FALSE(decode_payload_statement(given.bytes, only(3, other->key()), kMost));
  EXPECT_FALSE(decode_payload_statement(given.bytes, only(4, given.signer->key()), kMost));
  const Bytes forged = encode_payload_statement(given.statement, *other);
  EXPECT_FALSE(decode_payload_statement(forged, only(3, given.signer->key()), kMost));
}

TEST(PayloadStatement, LengthsBeyondWhatIsExpectedAreRefused) {
  Golden given = golden();
  for (const uint64_t length : {kMost + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    given.statement.payload.bytes = length;
    const auto decoded =
        decode_payload_statement(encode_payload_statement(given.statement, *given.signer),
                                 only(3, given.signer->key()), kMost);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().kind, FailureKind::kRefused);
  }
}

}  // namespace
}  // namespace thinwire::transport
