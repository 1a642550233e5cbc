#include "thinwire/transport/nats/nats_answers.h"

#include <gtest/gtest.h>

namespace thinwire::transport {
namespace {

TEST(NatsAnswers, OnlyTheServersOwnStatusCounts) {
  NatsMessage message;
  EXPECT_FALSE(is_missing(message));
  message.status = {"404"};
  EXPECT_TRUE(is_missing(message));
  message.stream = {"run-log-ledger"};
  EXPECT_FALSE(is_missing(message)) << "a stored message, whose author wrote the header";
}

TEST(NatsAnswers, OnlyHeadersOfTheServerAloneAnnounceARecord) {
  NatsMessage message;
  message.stream = {"run-log-ledger"};
  message.sequence = {"7"};
  EXPECT_EQ(announced_sequence(message, "run-log-ledger"), 7u);
  EXPECT_FALSE(announced_sequence(message, "run-log-other"));
  message.sequence = {"7x"};
  EXPECT_FALSE(announced_sequence(message, "run-log-ledger"));
  message.sequence = {"7", "8"};
  EXPECT_FALSE(announced_sequence(message, "run-log-ledger"));
  message.sequence = {"7"};
  message.stream = {"run-log-ledger", "run-blobs"};
  EXPECT_FALSE(announced_sequence(message, "run-log-ledger"));
}

TEST(NatsAnswers, NothingStoredIsANoticeOfTheServers) {
  const std::string_view unavailable = R"({"error":{"err_code":10008}})";
  const std::string_view elected =
      R"({"type":"io.nats.jetstream.advisory.v1.stream_leader_elected"})";
  NatsMessage message;
  message.body.assign(unavailable.begin(), unavailable.end());
  EXPECT_TRUE(is_unserved(message));
  message.stream = {"run-blobs"};
  EXPECT_FALSE(is_unserved(message));
  message.body.assign(elected.begin(), elected.end());
  EXPECT_FALSE(is_election(message));
  message.stream.clear();
  EXPECT_TRUE(is_election(message));
}

TEST(NatsAnswers, SubjectsOfAnyShapeAreRead) {
  for (const AnswerPlace& place : {AnswerPlace{12, 0}, AnswerPlace{12, 3}}) {
    const auto parsed = parse_place(print_place("_INBOX.me.abc", place));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->number, place.number);
    EXPECT_EQ(parsed->sending, place.sending);
    EXPECT_EQ(request_of(print_place("_INBOX.a-b.abc", place)), "_INBOX.a-b.abc.12");
  }
  for (const char* wrong : {"_INBOX.me.abc.", "", "_INBOX.me.abc.1-", "_INBOX.me.abc.-1"}) {
    EXPECT_FALSE(parse_place(wrong)) << wrong;
  }
  EXPECT_EQ(author_of("run.say.me.offers"), "me");
  EXPECT_EQ(author_of(""), "");
  EXPECT_EQ(author_of("."), "");
}

// A member can have the server send what it stored to any subject (Threats).
TEST(NatsAnswers, NobodySaysWhatComesOutOfAStore) {
  NatsMessage message;
  message.subject = "thinwire.server.departure";
  EXPECT_EQ(author_of_message(message), "server");
  message.stream = {"run-blobs"};
  EXPECT_EQ(author_of_message(message), "");
}

}  // namespace
}  // namespace thinwire::transport
