#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "thinwire/hosts/requests.h"

namespace thinwire::hosts {
namespace {

class RequestMessage : public testing::Test {
 protected:
  Request request() const {
    return {RequestKind::kResult, make_nonce(), coordinator->key(), requester->key(), {1, 2, 3}};
  }

  const std::unique_ptr<Signer> coordinator = make_signer(make_seed());
  const std::unique_ptr<Signer> requester = make_signer(make_seed());
};

TEST_F(RequestMessage, RequestsAndAnswersAreReadAsTheyWereWritten) {
  const Request asked = request();
  const auto read = decode_request(encode_request(asked, *requester), coordinator->key());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, asked);
  const Answer given{asked.nonce, false, {4, 5}};
  const auto answer = decode_answer(encode_answer(given, *coordinator), coordinator->key());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, given);
}

TEST_F(RequestMessage, ARequestForAnotherRunIsRefused) {
  const Bytes bytes = encode_request(request(), *requester);
  EXPECT_FALSE(decode_request(bytes, requester->key()));
}

TEST_F(RequestMessage, OnlyTheAskerSignsItsRequestAndOnlyTheCoordinatorAnswers) {
  EXPECT_FALSE(decode_request(encode_request(request(), *coordinator), coordinator->key()));
  EXPECT_FALSE(
      decode_answer(encode_answer({make_nonce(), true, {}}, *requester), coordinator->key()));
}

TEST_F(RequestMessage, AChangedOrShortenedMessageIsRefused) {
  const Bytes whole = encode_request(request(), *requester);
  for (size_t i = 0; i < whole.size(); ++i) {
    Bytes changed = whole;
    changed[i] ^= 1;
    EXPECT_FALSE(decode_request(changed, coordinator->key())) << i;
    EXPECT_FALSE(decode_request(std::span(whole).first(i), coordinator->key())) << i;
  }
}

TEST_F(RequestMessage, AnotherProtocolVersionIsNamed) {
  Bytes bytes = encode_request(request(), *requester);
  bytes[4] = kProtocolVersion + 1;
  const auto read = decode_request(bytes, coordinator->key());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find(fmt::format("it is of version {}, this program's is {}",
                                                  kProtocolVersion + 1, kProtocolVersion)),
            std::string::npos)
      << read.error().message;
}

}  // namespace
}  // namespace thinwire::hosts
