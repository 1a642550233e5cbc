// The courier over a real nats-server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nats_run.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {
namespace {

INSTANTIATE_TEST_SUITE_P(Couriers, CourierContract,
                         testing::Values(WorldKind{
                             "Nats", [] { return std::unique_ptr<CourierWorld>(new NatsRun); }}),
                         [](const auto& kind) { return kind.param.name; });

TEST(NatsServer, MakingStoresThatAreThereChangesNothing) {
  NatsRun run;
  const auto here = run.connect("here");
  ASSERT_TRUE(append(run, *here, "ledger", 0, "one"));
  EXPECT_TRUE(create_nats_stores(run.options("here"), {"ledger"}, {}));
  EXPECT_EQ(append(run, *here, "ledger", 1, "two").value_or(0), 2u);
}

// Whatever was acknowledged before a kill -9 is there afterwards, at the same address, and couriers
// go on by themselves: with what they were doing, and with reading where they were.
TEST(NatsServer, NothingAcknowledgedIsLostByKill) {
  NatsRun run;
  const auto here = run.connect("here");
  const auto there = run.connect("there");
  Mail<uint64_t> read;
  const auto reading =
      there->read("ledger", 1, [&](uint64_t sequence, const Bytes&) { read.add(sequence); });
  const int port = run.server().port();
  std::vector<Bytes> blobs;
  for (uint64_t kills = 0; kills < 3; ++kills) {
    blobs.push_back(random_bytes(4 * kMaxMessageBytes + 3, kills));
    ASSERT_TRUE(put(run, *here, blobs.back()));
    ASSERT_EQ(append(run, *here, "ledger", kills, "record").value_or(0), kills + 1);
    Mail<bool> stored;
    const auto in_progress = std::make_shared<const Bytes>(random_bytes(8'000'000, 77 + kills));
    here->put(in_progress, Priority::kBulk,
              [&](const Result<void>& done) { stored.add(done.has_value()); });
    run.server().signal(SIGKILL);
    while (run.server().alive()) usleep(1000);
    run.server().restart_if_ended();
    EXPECT_EQ(run.server().port(), port);
    ASSERT_TRUE(run.wait(stored, 1));
    EXPECT_THAT(stored.all(), testing::ElementsAre(true));
    for (const Bytes& blob : blobs) {
      const auto fetched = get(run, *there, blob_id(blob), {"here"});
      ASSERT_TRUE(fetched) << fetched.error().message;
      EXPECT_EQ(*fetched, blob);
    }
    ASSERT_TRUE(run.wait(read, kills + 1));
  }
  EXPECT_THAT(read.all(), testing::ElementsAre(1, 2, 3));
}

// One signature in 256 begins with a zero byte: without care for them this fails two times in
// three.
TEST(NatsServer, LetsItsUserInWhateverTheSignatureBeginsWith) {
  NatsRun run;
  const NatsTarget target = run.options("here").target;
  for (int i = 0; i < 300; ++i) {
    const auto connection =
        connect_nats(target, {[](const NatsMessage&) {}, [](bool) {}, [](const std::string&) {},
                              [](const std::string&) {}});
    ASSERT_TRUE(connection) << connection.error().message;
  }
}

TEST(NatsServer, TellsCoordinatorsWhoseConnectionBeganAndEnded) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  const auto here = run.connect("here");
  Mail<Bytes> arrivals, departures;
  const auto listen = [&](const char* topic, Mail<Bytes>& into) {
    return here->subscribe(kServerParticipant, topic, [&](const std::string& from, Bytes said) {
      if (from == kServerParticipant) into.add(std::move(said));
    });
  };
  const auto arriving = listen(kArrivalTopic, arrivals);
  const auto departing = listen(kDepartureTopic, departures);
  flush(run, *here);
  run.connect("member");  // and it is gone again
  ASSERT_TRUE(run.wait(arrivals, 1));
  ASSERT_TRUE(run.wait(departures, 1));
  const auto began = parse_connection_notice(arrivals.all().front());
  ASSERT_TRUE(began);
  EXPECT_EQ(began->owner, make_signer(run.options("member").target.identity)->key());
  EXPECT_EQ(parse_connection_notice(departures.all().front()), began);
}

TEST(NatsServer, OtherNoticesNameNobody) {
  const std::string user = encode_public_key(NKeyKind::kUser, make_signer(make_seed())->key());
  EXPECT_TRUE(parse_connection_notice(bytes_of(R"({"client":{"id":7,"user":")" + user + R"("}})")));
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(R"({"client":[]})"),
        std::string(R"({"client":{"id":7,"user":7}})"),
        std::string(R"({"client":{"id":7,"user":"somebody"}})"),
        R"({"client":{"user":")" + user + R"("}})",
        R"({"client":{"id":-7,"user":")" + user + R"("}})"}) {
    EXPECT_FALSE(parse_connection_notice(bytes_of(text))) << text;
  }
}

// Its certificate, port and store are its folder's.
TEST(NatsServer, ComesBackAsItWas) {
  const TestFolder folder;
  const Seed seed = make_seed();
  const NatsSettings settings{
      .host = "127.0.0.1", .folder = folder.path(), .run = "run", .streams = {}};
  const std::vector<NatsUser> users = {{"here", make_signer(seed)->key(), NatsRole::kCoordinator}};
  int port = 0;
  std::string authority;
  {
    const NatsServer server(settings, users, kNatsPatience);
    port = server.port();
    authority = server.authority();
  }
  const NatsServer again(settings, users, kNatsPatience);
  EXPECT_EQ(again.port(), port);
  EXPECT_EQ(again.authority(), authority);
  EXPECT_EQ(fs::status(folder.path()).permissions(), fs::perms::owner_all);
}

std::string refusal_to_start(const NatsSettings& settings) {
  try {
    const NatsServer server(settings, {}, kNatsPatience);
    return "it listens";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(NatsServer, WhatItDoesNotAcceptIsAnErrorWithItsReason) {
  const TestFolder folder;
  const std::string why = refusal_to_start(
      {.host = "127.0.0.1", .port = 70'000, .folder = folder.path(), .run = "run", .streams = {}});
  EXPECT_THAT(why, testing::HasSubstr("nats-server ended with exit status 1: [FTL] "));
  EXPECT_THAT(why, testing::HasSubstr("70000"));
  EXPECT_THAT(why, testing::HasSubstr("; its log is " + (folder.path() / "nats.log").string()));
}

TEST(NatsServer, SaysInOneSentenceThatItCannotListen) {
  const NatsRun run;
  const TestFolder folder;
  NatsSettings settings{.host = "127.0.0.1",
                        .port = std::stoi(run.address().substr(run.address().find(':') + 1)),
                        .folder = folder.path(),
                        .run = "run",
                        .streams = {}};
  EXPECT_EQ(refusal_to_start(settings),
            fmt::format("--listen: cannot listen at {0}: another program uses port {1}; end that "
                        "program or give another port (0: a free one)",
                        run.address(), settings.port));
  write_file(folder.path() / "port", std::to_string(std::exchange(settings.port, 0)));
  EXPECT_THAT(refusal_to_start(settings),
              testing::HasSubstr(", at which members of this run look for it; end that program"));
  settings = {.host = "192.0.2.1", .folder = folder.path() / "far", .run = "run", .streams = {}};
  EXPECT_THAT(refusal_to_start(settings), testing::HasSubstr("this machine has no such address"));
}

// The pipe's writing end goes on to the server, so the pipe ends when both have ended.
TEST(NatsServer, EndsWithItsParent) {
  const TestFolder folder;
  const NatsSettings settings{
      .host = "127.0.0.1", .folder = folder.path(), .run = "run", .streams = {}};
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const NatsServer server(settings, {}, kNatsPatience);
    const char ready = 'r';
    if (write(ends[1], &ready, 1) != 1) _exit(1);
    while (true) pause();
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1) << "the server did not start";
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  waitpid(parent, nullptr, 0);
}

}  // namespace
}  // namespace thinwire::transport
