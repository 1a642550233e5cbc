// What an attacker may try at a relay before a real nats-server. docs/security.md names each.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "bare_client.h"
#include "relayed_run.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {
namespace {

using testing::HasSubstr;

TEST(RelayThreats, AKeyThatTheServerDoesNotKnowIsRefused) {
  RelayedRun site;
  const auto courier = connect_nats_courier(site.options("stranger"));
  ASSERT_FALSE(courier);
  EXPECT_EQ(courier.error().kind, FailureKind::kRefused);
}

TEST(RelayThreats, ARelayOfAnotherAuthorityIsNotBelieved) {
  RelayedRun site;
  NatsOptions options = site.options("here");
  options.target.ca_pem = site.run().server().authority();
  const auto courier = connect_nats_courier(options);
  ASSERT_FALSE(courier);
  EXPECT_EQ(courier.error().kind, FailureKind::kRefused);
}

TEST(RelayThreats, AServerOfAnotherAuthorityIsNotRelayed) {
  NatsRun run;
  const Certificate authority = make_authority({0, 4'000'000'000});
  Relay relay(RelaySettings{.host = "127.0.0.1",
                            .servers = {{"127.0.0.1", run.server().port(), kServerName}},
                            .authorities = authority.certificate,
                            .own = make_server_certificate(authority, {0, 4'000'000'000}),
                            .run = "run"});
  std::atomic<bool> answered = false;
  std::string answer;
  std::thread client([&] {
    answer = Stranger(relay.port()).rest();
    answered = true;
  });
  while (!answered) relay.serve(0.01);
  client.join();
  EXPECT_THAT(answer, testing::Not(HasSubstr("hangs")));
  EXPECT_THAT(relay.problem(), HasSubstr("certificate verify failed"));
}

TEST(RelayThreats, NobodyIsServedWithoutTls) {
  RelayedRun site;
  const Stranger stranger(site.port());
  stranger.send("CONNECT {}\r\nPING\r\n");
  const std::string answer = stranger.rest();
  EXPECT_THAT(answer, testing::StartsWith("INFO "));
  EXPECT_THAT(answer, testing::Not(HasSubstr("PONG")));
  EXPECT_THAT(answer, testing::Not(HasSubstr("hangs")));
}

TEST(RelayThreats, AMemberCannotPublishUnderAnothersName) {
  RelayedRun site;
  site.run().add("member", NatsRole::kMember);
  Mail<std::string> refused;
  const auto connection = connect_nats(
      site.options("member").target,
      {[](const NatsMessage&) {}, [](bool) {},
       [&](std::string text) { refused.add(std::move(text)); }, [](const std::string&) {}});
  ASSERT_TRUE(connection) << connection.error().message;
  const NatsSubjects subjects("run");
  ASSERT_TRUE(
      (*connection)->publish(subjects.statement("here", "offer"), "", {}, bytes_of("mine")));
  ASSERT_TRUE(site.wait(refused, 1));
  EXPECT_THAT(refused.all().front(), HasSubstr("Permissions Violation"));
}

// The relay has the chunk, but the server would not give it to this role.
TEST(RelayThreats, WhomTheServerRefusesAChunkGetsNoneFromTheRelay) {
  RelayedRun site;
  site.run().add("observer", NatsRole::kObserver);
  const auto near = site.connect("there");
  const Bytes blob = random_bytes(1000, 1);
  ASSERT_TRUE(put(site, *near, blob));
  ASSERT_TRUE(get(site, *near, blob_id(blob), {"there"}));
  const auto observer = site.connect("observer");
  for (int i = 0; i < 3; ++i) {
    const auto fetched = get(site, *observer, blob_id(blob), {"there"});
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().kind, FailureKind::kRefused) << fetched.error().message;
  }
}

// Stored under a name that is not its own; for members behind the relay it comes from the relay.
TEST(RelayThreats, AnAlteredChunkIsNeitherTakenNorKept) {
  RelayedRun site;
  const auto near = site.connect("there");
  const auto also_near = site.connect("elsewhere");
  const Bytes blob = random_bytes(1000, 1);
  Mail<std::string> stored;
  const auto liar =
      connect_nats(site.run().options("here").target,
                   {[&](const NatsMessage& message) { stored.add(message.subject); }, [](bool) {},
                    [](const std::string&) {}, [](const std::string&) {}});
  ASSERT_TRUE(liar) << liar.error().message;
  (*liar)->subscribe("_INBOX.here.x");
  ASSERT_TRUE((*liar)->publish(NatsSubjects("run").chunk("here", key_of(blob)), "_INBOX.here.x", {},
                               random_bytes(1000, 2)));
  ASSERT_TRUE(site.wait(stored, 1));
  for (Courier* one : {near.get(), also_near.get(), near.get()}) {
    const auto altered = get(site, *one, blob_id(blob), {"here"});
    ASSERT_FALSE(altered);
    EXPECT_EQ(altered.error().kind, FailureKind::kCorruptPayload) << altered.error().message;
  }
  EXPECT_EQ(site.counts().shared_chunks, 0u);
  ASSERT_TRUE(put(site, *near, blob));
  EXPECT_TRUE(get(site, *also_near, blob_id(blob), {"here", "there"}));
}

TEST(RelayThreats, ARevokedMemberLosesItsConnection) {
  RelayedRun site;
  site.run().add("member", NatsRole::kMember);
  const auto member = site.connect("member");
  ASSERT_TRUE(put(site, *member, random_bytes(1000, 1)));
  site.run().revoke("member");
  const auto refused = put(site, *member, random_bytes(1000, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::kRefused) << refused.error().message;
}

TEST(RelayThreats, ConnectionsAreLimited) {
  RelayedRun site({.handshake_s = 2 * kNatsPatience});
  const auto near = site.connect("there");
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (size_t i = 0; i < kMaxClients + 50; ++i) {
    strangers.push_back(std::make_unique<Stranger>(site.port()));
  }
  const auto greeted = std::ranges::count_if(strangers, [](auto& one) { return one->greeted(); });
  EXPECT_EQ(static_cast<size_t>(greeted), kMaxClients - 1);
  EXPECT_TRUE(put(site, *near, random_bytes(1000, 1)));  // who is connected goes on
}

TEST(RelayThreats, HalfOpenConnectionsAreClosed) {
  RelayedRun site({.handshake_s = 0.5});
  EXPECT_THAT(Stranger(site.port()).rest(), testing::Not(HasSubstr("hangs")));
}

TEST(RelayThreats, WhoeverReadsNothingIsAnsweredNoMore) {
  RelayedRun site;
  const auto near = site.connect("there");
  const Bytes blob = random_bytes(kMaxMessageBytes, 1);
  ASSERT_TRUE(put(site, *near, blob));
  BareClient silent(site.options("elsewhere").target);
  silent.log_in();
  silent.subscribe("_INBOX.elsewhere.x");
  const std::string chunk = NatsSubjects("run").get_chunk("there", key_of(blob));
  silent.request(chunk, "_INBOX.elsewhere.x");
  ASSERT_TRUE(silent.read_until("Nats-Stream"));
  constexpr uint64_t kRequests = 300;
  for (uint64_t i = 0; i < kRequests; ++i) silent.request(chunk, "_INBOX.elsewhere.x");
  while (site.counts().shared_chunks == 0) std::this_thread::yield();
  EXPECT_TRUE(put(site, *near, random_bytes(1000, 2)));  // others go on
  EXPECT_LT(site.counts().shared_chunks, kRequests / 3);
}

}  // namespace
}  // namespace thinwire::transport
