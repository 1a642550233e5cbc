#include "thinwire/transport/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "codecs.h"
#include "frames.h"
#include "thinwire/base/digest.h"

namespace thinwire::transport {
namespace {

constexpr double kPatience = 30;  // seconds; only a hang takes that long
constexpr int kMembers = 3;

Operation operation() { return {11, {.run = 22, .epoch = 33, .round = 44, .fragment = 55}}; }

// One of each kind, with a body where the kind has one.
std::vector<Frame> all_kinds() {
  std::vector<Frame> frames;
  for (int kind = 1; kind <= 8; ++kind) {
    const auto which = static_cast<FrameKind>(kind);
    const bool silent = which == FrameKind::kWithdrawal || which == FrameKind::kLeave;
    frames.push_back({{which, 2, 0, names_operation(which) ? operation() : Operation()},
                      silent ? Bytes() : Bytes{'w', 'h', 'y'}});
  }
  return frames;
}

std::string refusal(Bytes bytes) {
  const Result<Frame> frame = decode_frame(std::move(bytes), kMembers);
  return frame ? "" : frame.error().message;
}

TEST(Frame, EveryKindArrivesAsItWasSent) {
  for (const Frame& frame : all_kinds()) {
    const Result<Frame> arrived = decode_frame(encode_frame(frame.head, frame.body), kMembers);
    ASSERT_TRUE(arrived) << arrived.error().message;
    EXPECT_EQ(arrived->head, frame.head);
    EXPECT_EQ(arrived->body, frame.body);
  }
}

// docs/formats.md.
TEST(Frame, BytesAreAsDocumented) {
  const Bytes note = encode_frame({FrameKind::kNote, 1, 2, {}}, Bytes{9, 8});
  EXPECT_EQ(note, (Bytes{9, 8, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 8, 1}));
  const Bytes sum = encode_frame({FrameKind::kSum, 0, 1, operation()}, Bytes{7});
  EXPECT_EQ(sum, (Bytes{7, 11, 0, 0,  0, 0, 0, 0, 0, 22, 0, 0,  0, 0, 0, 0, 0, 33,
                        0, 0,  0, 44, 0, 0, 0, 0, 0, 0,  0, 55, 0, 0, 0,  //
                        0, 0,  0, 0,  1, 0, 0, 0, 1, 0,  0, 0,  0, 0, 0, 0, 3, 1}));
}

TEST(Frame, DamageIsRefusedAndNamed) {
  const Bytes good = encode_frame({FrameKind::kSum, 0, 1, operation()}, Bytes{7});
  const auto with = [&](size_t from_end, uint8_t value) {
    Bytes bytes = good;
    bytes[bytes.size() - from_end] = value;
    return bytes;
  };
  EXPECT_THAT(refusal({1, 2, 3}), testing::HasSubstr("3 bytes are too few"));
  EXPECT_THAT(refusal(with(1, 9)), testing::HasSubstr("version 9, this program's is 1"));
  EXPECT_THAT(refusal(with(2, 17)), testing::HasSubstr("kind is 17"));
  EXPECT_THAT(refusal(with(2, 0)), testing::HasSubstr("kind is 0"));
  EXPECT_THAT(refusal(with(14, 3)), testing::HasSubstr("from member 0 to 3 of 3"));
  EXPECT_THAT(refusal(with(15, 255)), testing::HasSubstr("from member 4278190080 to 1"));
  EXPECT_THAT(refusal(with(3, 255)), testing::HasSubstr("its body alone should have 1"));
  EXPECT_THAT(refusal(with(10, 2)), testing::HasSubstr("its body alone should have 2"));
}

TEST(Frame, CutOrLengthenedItIsRefused) {
  for (const Frame& frame : all_kinds()) {
    const Bytes good = encode_frame(frame.head, frame.body);
    for (size_t from = 1; from <= good.size(); ++from) {
      EXPECT_NE(refusal({good.begin() + static_cast<ptrdiff_t>(from), good.end()}), "");
    }
    Bytes longer = {0};
    longer.insert(longer.end(), good.begin(), good.end());
    EXPECT_NE(refusal(longer), "");
  }
}

TEST(Frame, KindsWithoutBodyHaveNoneAndReasonsAreGiven) {
  EXPECT_THAT(refusal(encode_frame({FrameKind::kLeave, 0, 1, {}}, Bytes{1})),
              testing::HasSubstr("kind 6 has no body"));
  EXPECT_THAT(refusal(encode_frame({FrameKind::kAbort, 0, 1, {}}, Bytes{})),
              testing::HasSubstr("kind 7 needs a reason"));
}

// The reason that member 0 of two gives for the end of a run in which these bytes came from member
// 1.
std::string end_of_run(const std::vector<Bytes>& frames) {
  FrameNetwork network(2);
  const auto communicator = make_hub_communicator(network.hub(0), 2, 0);
  const Key key{.run = 1, .epoch = 0, .round = 0, .fragment = 0};
  communicator->start_all_gather(key, Bytes(4));
  for (const Bytes& frame : frames) network.inject(1, 0, frame);
  const auto list = communicator->wait_all_gather(key, kPatience);
  if (list) return "";
  EXPECT_EQ(list.error().kind, FailureKind::kAborted);
  return list.error().message;
}

TEST(Frame, DamagedOneEndsTheRunWithAReason) {
  EXPECT_THAT(end_of_run({{}}), testing::HasSubstr("a damaged frame came from the process of "
                                                   "members 1 to 1: 0 bytes are too few"));
  EXPECT_THAT(end_of_run({Bytes(100, 0xff)}), testing::HasSubstr("version 255"));
}

TEST(Frame, NobodySpeaksForAnother) {
  const Bytes own = encode_frame({FrameKind::kLeave, 0, 1, {}}, {});
  EXPECT_THAT(end_of_run({own}), testing::HasSubstr("it goes from member 0 to 1"));
  const Bytes elsewhere = encode_frame({FrameKind::kLeave, 1, 1, {}}, {});
  EXPECT_THAT(end_of_run({elsewhere}), testing::HasSubstr("it goes from member 1 to 1"));
}

TEST(Frame, SaidTwiceItEndsTheRun) {
  const Operation other{77, {.run = 1, .epoch = 0, .round = 9, .fragment = 0}};
  const Bytes payload = encode_frame({FrameKind::kPayload, 1, 0, other}, Bytes(3));
  EXPECT_THAT(end_of_run({payload, payload}),
              testing::HasSubstr("payload of round 9 has already arrived"));
  const Bytes sum = encode_frame({FrameKind::kSum, 1, 0, other}, Bytes(3));
  EXPECT_THAT(end_of_run({sum, sum}), testing::HasSubstr("the sum of round 9 has already arrived"));
}

// A member outside a group cannot take part in its operations, whatever it sends.
TEST(Frame, OutsidersTakeNoPartInAGroup) {
  FrameHub hub(0, 3, [](int, const Bytes&) {});
  const uint64_t group = hub.group({0, 1});
  const Key key{.run = 1, .epoch = 0, .round = 0, .fragment = 0};
  const Operation own{hash_bytes(as_bytes(std::span<const int>(std::vector<int>{0, 1}))), key};
  hub.offer(group, 0, key, Bytes(4));
  ASSERT_TRUE(hub.deliver({{FrameKind::kPayload, 2, 0, own}, Bytes(1)}));
  ASSERT_TRUE(hub.deliver({{FrameKind::kPayload, 1, 0, own}, Bytes(2)}));
  const auto list = hub.collect(group, 0, key, kPatience);
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[1].member, 1);

  const std::vector<float> values(8, 1.0f);
  hub.contribute(group, 0, key, values, kF32);
  ASSERT_TRUE(hub.deliver({{FrameKind::kContribution, 2, 0, own}, Bytes(16)}));
  while (hub.work()) continue;
  ASSERT_TRUE(hub.deliver({{FrameKind::kContribution, 1, 0, own}, Bytes(16)}));
  ASSERT_TRUE(hub.deliver({{FrameKind::kSum, 2, 0, own}, Bytes(16)}));
  ASSERT_TRUE(hub.deliver({{FrameKind::kSum, 1, 0, own}, Bytes(16)}));
  while (hub.work()) continue;
  std::vector<float> out(8);
  ASSERT_TRUE(hub.sum(group, 0, key, out, kPatience));
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace thinwire::transport
