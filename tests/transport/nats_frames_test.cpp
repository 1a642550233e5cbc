#include "thinwire/transport/relay/nats_frames.h"

#include <gmock/gmock.h>

#include "thinwire/base/rng.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string text_in(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

// All messages in a text that arrives in pieces of this size; it must be whole messages.
std::vector<NatsFrame> frames_of(std::string_view text, size_t piece) {
  NatsFrameReader reader;
  std::vector<NatsFrame> frames;
  for (size_t at = 0; at < text.size(); at += piece) {
    reader.add(as_bytes(text.substr(at, piece)));
    while (true) {
      auto frame = reader.next();
      EXPECT_TRUE(frame) << frame.error().message;
      if (!frame || !*frame) break;
      frames.push_back(std::move(**frame));
    }
  }
  return frames;
}

std::string failure_of(std::string_view text) {
  NatsFrameReader reader;
  reader.add(as_bytes(text));
  while (true) {
    const auto frame = reader.next();
    if (!frame) return frame.error().message;
    if (!*frame) return "";
  }
}

TEST(NatsFrames, ReadsMessagesHoweverTheyArrive) {
  constexpr std::string_view kText =
      "INFO {\"a\":1}\r\nCONNECT {}\r\nPING\r\nPONG\r\n+OK\r\n-ERR 'no, never'\r\n"
      "PUB a.b 3\r\nx\r\n\r\nPUB a.b in.1 0\r\n\r\nHPUB a in 10 12\r\nNATS/1.0\r\nhi\r\n"
      "SUB a.* 7\r\nSUB a.> group 8\r\nUNSUB 7\r\nUNSUB 8 3\r\n"
      "MSG a.b 7 2\r\nhi\r\nMSG a.b 7 in.2 2\r\nhi\r\nHMSG a 8 10 10\r\nNATS/1.0\r\n\r\n";
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, kText.size()}) {
    const std::vector<NatsFrame> frames = frames_of(kText, piece);
    ASSERT_EQ(frames.size(), 16u);
    std::string all;
    for (const NatsFrame& frame : frames) all += text_in(frame.raw);
    EXPECT_EQ(all, kText);
    EXPECT_EQ(frames[0].text, R"({"a":1})");
    EXPECT_EQ(frames[5].text, "'no, never'");
    EXPECT_EQ(text_in(frames[6].body()), "x\r\n");
    EXPECT_EQ(frames[6].reply, "");
    EXPECT_EQ(frames[7].reply, "in.1");
    EXPECT_EQ(frames[8].headers(), "NATS/1.0\r\n");
    EXPECT_EQ(text_in(frames[8].body()), "hi");
    EXPECT_EQ(frames[10].sid, "8");
    EXPECT_TRUE(!frames[11].later && frames[12].later);
    EXPECT_EQ(frames[13].sid, "7");
    EXPECT_EQ(frames[14].reply, "in.2");
    EXPECT_THAT(text_in(frames[15].body()), IsEmpty());
  }
}

TEST(NatsFrames, WhatIsNotTheProtocolIsAFailureForGood) {
  EXPECT_THAT(failure_of("GET / HTTP/1.1\r\n"), HasSubstr("an unknown message"));
  for (const char* text :
       {"PUB\r\n", "PUB a\r\n", "PUB a b c 1\r\n", "PUB a -1\r\n", "PUB a 9999999\r\n",
        "PUB a 18446744073709551616\r\n", "HPUB a 5 3\r\n", "HPUB a 1\r\n", "MSG a 1\r\n",
        "SUB\r\n", "SUB a\r\n", "UNSUB\r\n", "RS+ a\r\n", "LS+ a\r\n", "ping\r\n", "\r\n",
        "PING\n\r\n", "PUB a\nb 1\r\n", "PUB a 1\r\nxy\r\n"}) {
    EXPECT_NE(failure_of(text), "") << text;
  }
  EXPECT_THAT(failure_of(std::string(2 * kMaxNatsLine, 'x')), HasSubstr("too long"));
  NatsFrameReader reader;
  reader.add(as_bytes("nonsense\r\nPING\r\n"));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST(NatsFrames, AnUnfinishedMessageIsAwaited) {
  for (const char* text : {"", "PI", "PING", "PING\r", "PUB a 5\r\nhell", "PUB a 5\r\nhello\r"}) {
    EXPECT_EQ(failure_of(text), "") << text;
    EXPECT_THAT(frames_of(text, 3), IsEmpty());
  }
}

TEST(NatsFrames, SubjectsMatchAsTheServerMatchesThem) {
  EXPECT_TRUE(subject_matches("a.b", "a.b"));
  EXPECT_TRUE(subject_matches("_INBOX.me.*", "_INBOX.me.12"));
  EXPECT_TRUE(subject_matches("*.b", "a.b"));
  EXPECT_TRUE(subject_matches("a.>", "a.b.c"));
  EXPECT_TRUE(subject_matches(">", "a"));
  for (const auto& [pattern, subject] :
       {std::pair("a.b", "a.c"), std::pair("a.*", "a"), std::pair("a.*", "a.b.c"),
        std::pair("a", "a.b"), std::pair("a.>", "a"), std::pair("a*", "ab")}) {
    EXPECT_FALSE(subject_matches(pattern, subject)) << pattern << " " << subject;
  }
}

TEST(NatsFrames, WhatIsSentToAClientReadsBack) {
  const Bytes frame = deliver_frame("in.1", "4", "NATS/1.0\r\nA: b\r\n\r\n", as_bytes("body"));
  const std::vector<NatsFrame> read = frames_of(text_in(frame), frame.size());
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].verb, NatsVerb::kDeliver);
  EXPECT_EQ(read[0].subject, "in.1");
  EXPECT_EQ(read[0].sid, "4");
  EXPECT_EQ(read[0].headers(), "NATS/1.0\r\nA: b\r\n\r\n");
  EXPECT_EQ(text_in(read[0].body()), "body");
}

}  // namespace
}  // namespace thinwire::transport
