// The courier over a relay before a real nats-server.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "relayed_run.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {
namespace {

using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(RelayedCouriers, CourierContract,
                         testing::Values(WorldKind{
                             "Relayed",
                             [] { return std::unique_ptr<CourierWorld>(new RelayedRun); }}),
                         [](const auto& kind) { return kind.param.name; });

TEST(Relay, ABlobCrossesTheLineOnceForAllBehindIt) {
  RelayedRun site;
  const auto far = site.run().connect("here");
  const auto near = site.connect("there");
  const auto also_near = site.connect("elsewhere");
  // Each has been answered by the server.
  const Bytes first = random_bytes(1000, 1);
  ASSERT_TRUE(put(site, *far, first));
  for (Courier* one : {near.get(), also_near.get()}) {
    ASSERT_TRUE(get(site, *one, blob_id(first), {"here"}));
  }
  const Bytes blob = random_bytes(3'000'000, 2);
  ASSERT_TRUE(put(site, *far, blob));
  const uint64_t before = site.counts().from_server_bytes;
  for (Courier* one : {near.get(), also_near.get()}) {
    const auto fetched = get(site, *one, blob_id(blob), {"here"});
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(*fetched, blob);
  }
  const uint64_t crossed = site.counts().from_server_bytes - before;
  EXPECT_GE(crossed, blob.size());
  EXPECT_LE(crossed, blob.size() * 101 / 100);
  EXPECT_GE(site.counts().shared_bytes, blob.size());
}

TEST(Relay, ABlobOfAClientNeverComesBackOverTheLine) {
  RelayedRun site;
  const auto near = site.connect("there");
  const auto also_near = site.connect("elsewhere");
  const Bytes first = random_bytes(1000, 1);
  ASSERT_TRUE(put(site, *near, first));
  ASSERT_TRUE(get(site, *also_near, blob_id(first), {"there"}));
  const Bytes blob = random_bytes(3'000'000, 2);
  const uint64_t before = site.counts().from_server_bytes;
  ASSERT_TRUE(put(site, *near, blob));
  const auto fetched = get(site, *also_near, blob_id(blob), {"there"});
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(*fetched, blob);
  EXPECT_LE(site.counts().from_server_bytes - before, blob.size() / 100);
}

TEST(Relay, CouriersGoOnWhenItIsBack) {
  RelayedRun site;
  const auto near = site.connect("there");
  const auto far = site.run().connect("here");
  Mail<uint64_t> read;
  const auto reading =
      near->read("ledger", 1, [&](uint64_t sequence, const Bytes&) { read.add(sequence); });
  for (uint64_t restarts = 0; restarts < 3; ++restarts) {
    Mail<bool> stored;
    const auto in_progress = std::make_shared<const Bytes>(random_bytes(8'000'000, restarts));
    near->put(in_progress, Priority::kBulk,
              [&](const Result<void>& done) { stored.add(done.has_value()); });
    site.stop();
    ASSERT_EQ(append(site, *far, "ledger", restarts, "record").value_or(0), restarts + 1);
    site.start();
    ASSERT_TRUE(site.wait(stored, 1));
    EXPECT_THAT(stored.all(), testing::ElementsAre(true));
    ASSERT_TRUE(site.wait(read, restarts + 1));
  }
  EXPECT_THAT(read.all(), testing::ElementsAre(1, 2, 3));
}

TEST(Relay, TheServerSeesWhoseConnectionEnded) {
  RelayedRun site;
  site.run().add("member", NatsRole::kMember);
  const auto here = site.run().connect("here");
  Mail<Bytes> departures;
  const auto listening =
      here->subscribe(kServerParticipant, kDepartureTopic,
                      [&](const std::string&, Bytes said) { departures.add(std::move(said)); });
  flush(site, *here);
  site.connect("member");  // and it is gone again
  ASSERT_TRUE(site.wait(departures, 1));
  const PublicKey key = make_signer(site.run().options("member").target.identity)->key();
  const auto notice = parse_connection_notice(departures.all().front());
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->owner, key);
}

TEST(Relay, SaysWhyTheServerCannotBeReached) {
  RelayedRun site;
  site.run().server().signal(SIGKILL);
  while (site.run().server().alive()) ::usleep(1000);
  EXPECT_EQ(Stranger(site.port()).rest(), "");
  EXPECT_EQ(site.problem(), "Connection refused");
  site.run().server().restart_if_ended();
  const auto near = site.connect("there");
  EXPECT_EQ(site.problem(), "");
}

TEST(Relay, WhereItCannotListenIsAnErrorWithTheReason) {
  RelayedRun site;
  const Certificate authority = make_authority({0, 4'000'000'000});
  RelaySettings settings{.host = "127.0.0.1",
                         .port = site.port(),
                         .servers = {},
                         .authorities = authority.certificate,
                         .own = make_server_certificate(authority, {0, 4'000'000'000}),
                         .run = "run"};
  const auto reason = [&] {
    try {
      const Relay relay(settings);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(reason(), HasSubstr("--listen: cannot listen at 127.0.0.1:"));
  EXPECT_THAT(reason(), HasSubstr("end that program or give another port"));
  settings.host = "no.such.host.invalid";
  EXPECT_THAT(reason(), HasSubstr("--listen: cannot listen at no.such.host.invalid:"));
}

}  // namespace
}  // namespace thinwire::transport
