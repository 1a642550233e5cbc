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
  void ask(double now, const std::string& subject = "store", double settle_s = 0,
           Repeat repeat = Repeat::kNever, double unserved_s = NatsRequests::kNever) {
    requests_.ask(now, {.subject = subject,
                        .send =
                            [this](const std::string& reply) {
                              sent_.push_back(reply);
                              return refuses_
                                         ? Result<void>(fail(FailureKind::kRefused, "too long"))
                                         : Result<void>();
                            },
                        .answer =
                            [this](const Result<NatsMessage>& answer) {
                              answers_.push_back(
                                  answer ? std::string(answer->body.begin(), answer->body.end())
                                         : std::string(answer.error().message));
                            },
                        .repeat = repeat,
                        .settle_s = settle_s,
                        .unserved_s = unserved_s});
  }
  void ask_for(Repeat repeat, double now) { ask(now, "store", 0, repeat); }
  // Asks, and is answered after so long without having asked again.
  void take_seconds(double now, double seconds) {
    ask_for(Repeat::kChunk, now);
    requests_.take(now + seconds, message(sent_.back()));
  }
  // A chunk takes 4 s on this line, whoever sends it.
  void take_twenty_chunks_over_a_slow_line() {
    double now = 0;
    for (int i = 0; i < 20; ++i) {
      ask_for(Repeat::kChunk, now);
      const std::string reply = sent_.back();
      for (const double end = now + 4; requests_.next() < end;) requests_.expire(requests_.next());
      requests_.take(now += 4, message(reply));
    }
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
  EXPECT_THAT(sent_, ElementsAre("_INBOX.me.1", "_INBOX.me.1-1"));
  EXPECT_DOUBLE_EQ(requests_.next(), 10) << "once, until the next answer";
  requests_.take(2, message("_INBOX.me.1", R"({"error":{"err_code":10008}})"));
  requests_.expire(2.25);
  EXPECT_EQ(sent_.size(), 3u) << "nobody leads";
  requests_.take(3, message("_INBOX.me.1", "taken"));
  EXPECT_THAT(answers_, ElementsAre("taken"));
}

TEST_F(NatsRequestsTest, WhatAServerDoesNotHaveYetIsAskedForAgain) {
  ask(0, "store", 1);
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
  requests_.link(false);
  ask_for(Repeat::kQuestion, 0);
  requests_.send_lost(1);
  requests_.expire(9);
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(requests_.next(), 10);
  requests_.expire(10);
  EXPECT_EQ(answers_.size(), 1u);
}

// Any of several servers may answer, and the one that was asked may hang.
TEST_F(NatsRequestsTest, WhatMayHaveGoneToAServerThatHangsIsSentAgain) {
  for (const Repeat repeat : {Repeat::kChunk, Repeat::kRecord, Repeat::kQuestion}) {
    sent_.clear();
    answers_.clear();
    ask_for(repeat, 0);
    EXPECT_DOUBLE_EQ(requests_.next(), 2.5);
    requests_.expire(2.4);
    EXPECT_EQ(sent_.size(), 1u);
    requests_.expire(2.5);
    EXPECT_DOUBLE_EQ(requests_.next(), 7.5) << "the line may be slow";
    requests_.expire(7.5);
    const std::string reply = sent_.front();
    EXPECT_THAT(sent_, ElementsAre(reply, reply + "-1", reply + "-2"));
    requests_.take(7.6, message(reply, "from another"));
    requests_.take(9, message(reply, "from the one that hung"));
    EXPECT_THAT(answers_, ElementsAre("from another"));
  }
}

TEST_F(NatsRequestsTest, WhatIsStoredIsNotSentAgainBecauseItIsLate) {
  ask_for(Repeat::kNever, 0);
  ask_for(Repeat::kAppend, 0);
  EXPECT_DOUBLE_EQ(requests_.next(), 10);
  requests_.expire(9);
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(NatsRequestsTest, WhatWasOnItsWayToAServerThatIsGoneIsSentAgain) {
  for (const Repeat repeat :
       {Repeat::kNever, Repeat::kChunk, Repeat::kRecord, Repeat::kAppend, Repeat::kQuestion}) {
    ask_for(repeat, 0);
  }
  sent_.clear();
  requests_.send_lost(1);
  EXPECT_THAT(sent_, ElementsAre("_INBOX.me.4-1", "_INBOX.me.5-1"))
      << "transfers and readers ask for theirs themselves";
}

TEST_F(NatsRequestsTest, ASlowLineDoesNotCarryEverythingTwice) {
  take_twenty_chunks_over_a_slow_line();
  EXPECT_EQ(sent_.size(), 20u + 1) << "only the first one";
}

TEST_F(NatsRequestsTest, OnceAServerHasHungAnotherIsAskedSooner) {
  const auto first_patience = [this] {
    ask_for(Repeat::kChunk, 0);
    const double patience = requests_.next();
    requests_.take(0.01, message(sent_.back()));
    return patience;
  };
  take_seconds(0, 0.05);
  EXPECT_DOUBLE_EQ(first_patience(), 2.5);
  ask_for(Repeat::kChunk, 0);
  requests_.expire(2.5);
  requests_.take(2.51, message(sent_.back()));
  EXPECT_DOUBLE_EQ(first_patience(), 0.25);
  ask_for(Repeat::kChunk, 0);
  for (const double soon : {0.25, 0.5, 0.75}) requests_.expire(soon);
  EXPECT_DOUBLE_EQ(requests_.next(), 0.75 + 2.5) << "chance may choose the same one again";
  requests_.take(0.8, message(sent_.back()));
  for (int i = 0; i < 32; ++i) take_seconds(0, 0.05);
  EXPECT_DOUBLE_EQ(first_patience(), 2.5) << "it is no longer asked";
}

// As when chance chooses it again and again.
TEST_F(NatsRequestsTest, AServerThatHangsIsNeverWaitedForLonger) {
  for (int i = 0; i < 10; ++i) {
    ask_for(Repeat::kChunk, 0);
    const double patience = requests_.next();
    EXPECT_LE(patience, 2.5);
    requests_.expire(patience);
    requests_.take(patience + 0.01, message(sent_.back()));
  }
  EXPECT_EQ(answers_.size(), 10u);
}

TEST_F(NatsRequestsTest, ALateAnswerTellsHowSlowTheLineIs) {
  ask_for(Repeat::kChunk, 0);
  requests_.expire(2.5);
  requests_.take(3, message(sent_.front()));
  ask_for(Repeat::kChunk, 3);
  EXPECT_DOUBLE_EQ(requests_.next(), 3 + 10)
      << "only after its time-out, which is sooner than 4 * 3";
}

TEST_F(NatsRequestsTest, ALineThatBecomesSlowIsNoServerThatHangs) {
  for (int i = 0; i < 16; ++i) take_seconds(0, 0.05);
  sent_.clear();
  take_twenty_chunks_over_a_slow_line();
  EXPECT_EQ(sent_.size(), 20u + 1) << "only the first one";
}

TEST_F(NatsRequestsTest, WhatIsQuickAgainIsSoonSentAgain) {
  take_seconds(0, 2);
  ask_for(Repeat::kChunk, 2);
  EXPECT_DOUBLE_EQ(requests_.next(), 2 + 4 * 2);
  for (int i = 0; i < 16; ++i) take_seconds(2, 0.1);
  EXPECT_DOUBLE_EQ(requests_.next(), 2 + 2.5);
}

TEST_F(NatsRequestsTest, AStoreThatNobodyTakesOverIsNotWaitedForForLong) {
  ask(0, "store", 0, Repeat::kChunk, 5);
  requests_.take(1, message("_INBOX.me.1", "", "503"));
  requests_.take(5.9, message("_INBOX.me.1", "", "503"));
  EXPECT_THAT(answers_, IsEmpty());
  requests_.take(6, message("_INBOX.me.1", "", "503"));
  EXPECT_THAT(answers_, ElementsAre("no server has had the run's stores for 5 s"));
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
