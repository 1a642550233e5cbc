// Servers that take a connection and then stop answering: connecting to them ends in time.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "nats_run.h"
#include "stalling_server.h"
#include "thinwire/base/clock.h"

namespace thinwire::transport {
namespace {

constexpr double kTimeout = 1;

Failure failure_to_connect(const NatsTarget& target) {
  const auto connection =
      connect_nats(target, {[](const NatsMessage&) {}, [](bool) {}, [](const std::string&) {},
                            [](const std::string&) {}});
  return connection ? Failure{FailureKind::kAborted, "it is connected"} : connection.error();
}

// Without a limit, most of these do not end at all.
TEST(StallingServers, AreGivenUpInTimeWhereverTheyStall) {
  for (const Stall stall : {Stall::kAtOnce, Stall::kInFirstMessage, Stall::kAtHandshake,
                            Stall::kInHandshake, Stall::kAfterHandshake, Stall::kInAnswer}) {
    SCOPED_TRACE(static_cast<int>(stall));
    const StallingServer server(stall);
    const Stopwatch watch;
    const Failure failure = failure_to_connect(server.target(kTimeout));
    EXPECT_EQ(failure.kind, FailureKind::kLostPeer) << failure.message;
    EXPECT_GE(watch.seconds(), 0.9 * kTimeout);
    EXPECT_LT(watch.seconds(), kNatsPatience);
    if (stall >= Stall::kAtHandshake) {
      EXPECT_THAT(failure.message, testing::HasSubstr("did not answer for 1 s"));
    }
  }
}

TEST(StallingServers, AreNotWaitedForToPresentACertificate) {
  for (const Stall stall :
       {Stall::kAtOnce, Stall::kInFirstMessage, Stall::kAtHandshake, Stall::kInHandshake}) {
    SCOPED_TRACE(static_cast<int>(stall));
    const StallingServer server(stall);
    const Stopwatch watch;
    const Result<std::string> found = presented_authority("127.0.0.1", server.port(), {}, kTimeout);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, FailureKind::kLostPeer);
    EXPECT_THAT(found.error().message, testing::HasSubstr("did not answer for 1 s"));
    EXPECT_GE(watch.seconds(), 0.9 * kTimeout);
    EXPECT_LT(watch.seconds(), kNatsPatience);
  }
}

TEST(StallingServers, WhatIsNoTlsEndsAConnectionAtOnce) {
  for (const Stall stall : {Stall::kWithBrokenRecord, Stall::kWithBrokenRecordAndReset}) {
    SCOPED_TRACE(static_cast<int>(stall));
    const StallingServer server(stall);
    const Stopwatch watch;
    EXPECT_EQ(failure_to_connect(server.target(10 * kNatsPatience)).kind, FailureKind::kRefused);
    const auto found = presented_authority("127.0.0.1", server.port(), {}, 10 * kNatsPatience);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, FailureKind::kRefused);
    EXPECT_LT(watch.seconds(), kNatsPatience);
  }
}

// Something else answers at the server's address for a while, and holds on to the connection.
TEST(StallingServers, DoNotKeepACourierFromItsServer) {
  NatsRun run;
  NatsOptions options = run.options("here");
  options.target.timeout_s = kTimeout;
  const auto here = connect_nats_courier(options);
  ASSERT_TRUE(here) << here.error().message;
  run.server().signal(SIGKILL);
  while (run.server().alive()) usleep(1000);
  StallingServer other(Stall::kAtHandshake, run.server().port());
  other.wait_for_client();
  other.stop_listening();
  run.server().restart_if_ended();
  const Stopwatch watch;
  while (!put(run, **here, {1})) ASSERT_LT(watch.seconds(), kNatsPatience);
}

}  // namespace
}  // namespace thinwire::transport
