#include "thinwire/codec/payload.h"

#include <gtest/gtest.h>

namespace thinwire::codec {
namespace {

PayloadId id() {
  PayloadId id;
  id.run = 0x1122334455667788u;
  id.epoch = 3;
  id.sender = 5;
  id.round = 41;
  return id;
}

Bytes sealed() {
  Bytes payload;
  begin_payload(id(), payload);
  for (uint8_t byte = 0; byte < 20; ++byte) payload.push_back(byte);
  seal_payload(payload);
  return payload;
}

TEST(Payload, GivesBackTheMethodsBytes) {
  const Bytes payload = sealed();
  const auto body = open_payload(payload, id());
  ASSERT_TRUE(body);
  ASSERT_EQ(body->size(), 20u);
  EXPECT_EQ((*body)[19], 19);
}

TEST(Payload, EveryFlippedBitIsDetected) {
  Bytes payload = sealed();
  for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
    payload[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    EXPECT_FALSE(open_payload(payload, id())) << bit;
    payload[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

TEST(Payload, EveryTruncationIsDetected) {
  const Bytes payload = sealed();
  for (size_t size = 0; size < payload.size(); ++size) {
    const auto body = open_payload(std::span(payload).first(size), id());
    ASSERT_FALSE(body);
    EXPECT_EQ(body.error().kind, FailureKind::kCorruptPayload);
  }
}

TEST(Payload, AnotherRunEpochOrRoundIsStale) {
  const Bytes payload = sealed();
  PayloadId run = id();
  run.run = 9;
  PayloadId epoch = id();
  epoch.epoch = 4;
  PayloadId round = id();
  round.round = 42;
  for (const PayloadId& expected : {run, epoch, round}) {
    const auto body = open_payload(payload, expected);
    ASSERT_FALSE(body);
    EXPECT_EQ(body.error().kind, FailureKind::kStaleRound);
  }
}

TEST(Payload, AnotherSenderIsCorrupt) {
  const Bytes payload = sealed();
  PayloadId expected = id();
  expected.sender = 6;
  const auto body = open_payload(payload, expected);
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, FailureKind::kCorruptPayload);
}

}  // namespace
}  // namespace thinwire::codec
