#include <gtest/gtest.h>

#include "thinwire/base/signature.h"

namespace thinwire {
namespace {

constexpr MessageFormat kFormat{"TEST", 2, "a test"};

Bytes message(const Signer& signer) {
  Bytes bytes;
  begin_message(bytes, kFormat);
  ByteWriter(bytes).put(uint32_t{5});
  sign_message(bytes, signer);
  return bytes;
}

TEST(SignedMessage, HasItsContentAndSignature) {
  const auto signer = make_signer(Seed{1});
  const Bytes bytes = message(*signer);
  EXPECT_EQ(bytes.size(), 4u + 2 + 4 + 64);
  const auto opened = open_message(bytes, kFormat);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(ByteReader(opened->content).get<uint32_t>(), 5u);
  EXPECT_EQ(opened->content.size(), 4u);
  EXPECT_TRUE(verify(signer->key(), opened->signed_part, opened->signature));
}

TEST(SignedMessage, OfAnotherFormatIsRefusedByName) {
  const Bytes bytes = message(*make_signer(Seed{1}));
  const auto refusal = [&](const MessageFormat& format, size_t size) {
    const auto opened = open_message(std::span(bytes).first(size), format);
    return opened ? "" : opened.error().message;
  };
  EXPECT_EQ(refusal(kFormat, 4 + 2 + 64), "");  // its content is empty
  EXPECT_EQ(refusal(kFormat, 4 + 2 + 63), "not a test: it is truncated");
  EXPECT_EQ(refusal({"TSET", 2, "a test"}, bytes.size()),
            "not a test: it does not begin with TSET");
  EXPECT_EQ(refusal({"TEST", 3, "a test"}, bytes.size()),
            "not a test: it is of version 2, this program's is 3");
}

}  // namespace
}  // namespace thinwire
