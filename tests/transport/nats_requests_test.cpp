#include "thinwire/transport/nats/nats_requests.h"

#include <gmock/gmock.h>

namespace thinwire::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

NatsMessage message(const std::string& subject, const std::string& body = "",
                    const std::string& status = "") {
  NatsMessage made;
  made.subject = subject;
  made.body.assign(body.begin(), body.end());
  if (!status.empty()) made.status = {status};
  return made;
}

class NatsRequestsTest : public testing::Test {
 protected:
  void ask(double now, const std::string& subject = "store", bool connected = true,
           double settle_s = 0) {
    requests_.ask(
        now, subject, connected,
        [this](const std::string& reply) {
          sent_.push_back(reply);
          return refuses_ ? Result<void>(fail(FailureKind::kRefused, "too long")) : Result<void>();
        },
        [this](const Result<NatsMessage>& answer) {
          answers_.push_back(answer ? std::string(answer->body.begin(), answer->body.end())
                                    : std::string(answer.error().message));
        },
        settle_s);
  }

  NatsRequests requests_{"_INBOX.me", 10};
  bool refuses_ = false;
  std::vector<std::string> sent_, answers_;
};

TEST_F(NatsRequestsTest, EachAnswerGoesToWhoAsked) {
  ask(0);
  ask(0);
  EXPECT_THAT(sent_, ElementsAre("_INBOX.me.1", "_INBOX.me.2"));
  requests_.take(1, message("_INBOX.me.2", "second"));
  requests_.take(1, message("_INBOX.me.2", "twice"));
  requests_.take(1, message("_INBOX.me.9", "to nobody"));
  requests_.take(1, message("_INBOX.me.x", "to nobody"));
  EXPECT_THAT(answers_, ElementsAre("second"));
}

TEST_F(NatsRequestsTest, WhatNoServerTakesIsRepeatedUntilOneDoes) {
  ask(0);
  requests_.take(1, message("_INBOX.me.1", "", "503"));
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_DOUBLE_EQ(requests_.next(), 1.25);
  requests_.expire(1.2);
  EXPECT_EQ(sent_.size(), 1u);
  requests_.expire(1.25);
  EXPECT_THAT(sent_, ElementsAre("_INBOX.me.1", "_INBOX.me.1"));
  EXPECT_DOUBLE_EQ(requests_.next(), 10) << "once, until the next answer";
  requests_.take(2, message("_INBOX.me.1", R"({"error":{"err_code":10008}})"));
  requests_.expire(2.25);
  EXPECT_EQ(sent_.size(), 3u) << "nobody leads";
  requests_.take(3, message("_INBOX.me.1", "taken"));
  EXPECT_THAT(answers_, ElementsAre("taken"));
}

TEST_F(NatsRequestsTest, WhatAServerDoesNotHaveYetIsAskedForAgain) {
  ask(0, "store", true, 1);
  requests_.take(0.5, message("_INBOX.me.1", "", "404"));
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_DOUBLE_EQ(requests_.next(), 0.52);
  requests_.expire(0.52);
  EXPECT_EQ(sent_.size(), 2u);
  requests_.take(1, message("_INBOX.me.1", "", "404"));
  EXPECT_THAT(answers_, ElementsAre("")) << "it has had the time";
  ask(2);
  requests_.take(2, message("_INBOX.me.2", "", "404"));
  EXPECT_EQ(answers_.size(), 2u);
}

TEST_F(NatsRequestsTest, NothingWaitsBeyondItsTimeOut) {
  ask(0);
  ask(5);
  requests_.take(1, message("_INBOX.me.1", "", "503"));
  requests_.expire(10);
  EXPECT_THAT(answers_, ElementsAre("no server has had the run's stores for 10 s"));
  requests_.expire(15);
  EXPECT_EQ(answers_.back(), "the server did not answer in 10 s");
}

TEST_F(NatsRequestsTest, WithoutAConnectionNothingIsSent) {
  ask(0, "store", false);
  EXPECT_THAT(sent_, IsEmpty());
  requests_.expire(10);
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(NatsRequestsTest, WhatCannotBeSentFailsAfterTheCall) {
  refuses_ = true;
  ask(0);
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_EQ(requests_.next(), 0);
  requests_.expire(0);
  EXPECT_THAT(answers_, ElementsAre("too long"));
}

TEST_F(NatsRequestsTest, WhatTheServerDoesNotAllowFails) {
  ask(0, "mine");
  ask(0, "another's");
  requests_.refused("Permissions Violation for Publish to \"another's\"");
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_THAT(answers_[0], testing::HasSubstr("Permissions Violation"));
}

TEST_F(NatsRequestsTest, OnceAllHaveFailedLaterOnesDoToo) {
  ask(0);
  requests_.fail_all({FailureKind::kAborted, "closed"});
  ask(1);
  requests_.expire(1);
  EXPECT_THAT(answers_, ElementsAre("closed", "closed"));
  EXPECT_EQ(sent_.size(), 1u);
}

}  // namespace
}  // namespace thinwire::transport
