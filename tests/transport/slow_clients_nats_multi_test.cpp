// Connections that are slow, fall silent or stop reading: the server closes them at its limits, and
// until then they hold up nobody else. docs/security.md.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "bare_client.h"
#include "nats_run.h"
#include "thinwire/base/clock.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr double kNever = 100 * kNatsPatience;
constexpr int kSmallBuffer = 4096;  // bytes
// More than the system takes for a connection whose other end does not read.
constexpr int kFloodMessages = 100;
constexpr size_t kFloodBytes = 200'000;  // of each

// A run, two honest participants, and a member of its own.
class SlowClients {
 public:
  explicit SlowClients(const NatsLimits& limits) : run_(limits) {
    run_.add("member", NatsRole::kMember);
    here_ = run_.connect("here");
    there_ = run_.connect("there");
    departing_ = here_->subscribe(
        kServerParticipant, kDepartureTopic,
        [this, key = make_signer(member().identity)->key()](const std::string&, const Bytes& said) {
          const auto notice = parse_connection_notice(said);
          (notice && notice->owner == key ? departures_ : others_)
              .add(std::string(said.begin(), said.end()));
        });
    hearing_ = there_->subscribe("here", "flood",
                                 [this](const std::string&, const Bytes&) { heard_.add(true); });
    flush(run_, *here_);
    flush(run_, *there_);
  }

  NatsRun& run() { return run_; }
  NatsTarget member() { return run_.options("member").target; }
  // A member that listens to everybody and never reads again.
  std::unique_ptr<BareClient> deaf_member() {
    auto client = std::make_unique<BareClient>(member(), kSmallBuffer);
    client->log_in();
    client->subscribe(NatsSubjects("run").statement("*", "*"));
    return client;
  }
  // What one of them says reaches the other.
  void flood(int messages) {
    for (int i = 0; i < messages; ++i) {
      here_->publish("flood", Bytes(kFloodBytes));
      ASSERT_TRUE(run_.wait(heard_, ++said_)) << "message " << said_;
    }
  }
  // Floods until the server has closed a connection, and returns its reason.
  std::string flooded_until_closed() {
    const Stopwatch watch;
    while (departures_.all().empty() && watch.seconds() < kNatsPatience) flood(1);
    return reason_of_departure();
  }
  std::string reason_of_departure() {
    if (!run_.wait(departures_, 1)) return "nobody was closed";
    return departures_.all().front();
  }
  // The others go on, none of them was closed, and whoever comes is let in.
  void expect_service() {
    const Bytes blob = random_bytes(1'000'000, 1);
    ASSERT_TRUE(put(run_, *here_, blob));
    ASSERT_TRUE(get(run_, *there_, blob_id(blob), {"here"}));
    EXPECT_TRUE(run_.connect("elsewhere")->connected());
    EXPECT_THAT(others_.all(), Each(HasSubstr("Client Closed")));
  }
  size_t departures() { return departures_.all().size(); }

 private:
  NatsRun run_;
  Mail<std::string> departures_;  // of the member
  Mail<std::string> others_;      // departures of others
  Mail<bool> heard_;
  size_t said_ = 0;
  std::unique_ptr<Courier> here_, there_;
  std::unique_ptr<Subscription> departing_, hearing_;
};

TEST(SlowClients, WhoeverStopsReadingIsClosedAtTheLimitOfPendingBytes) {
  SlowClients clients({.write_s = kNever, .pending_bytes = 4 << 20});
  const auto deaf = clients.deaf_member();
  EXPECT_THAT(clients.flooded_until_closed(), HasSubstr("Slow Consumer (Pending Bytes)"));
  clients.expect_service();
}

TEST(SlowClients, WhoeverStopsReadingIsClosedAtTheWriteDeadline) {
  SlowClients clients({.write_s = 0.5, .pending_bytes = 1 << 30});
  const auto deaf = clients.deaf_member();
  EXPECT_THAT(clients.flooded_until_closed(), HasSubstr("Slow Consumer (Write Deadline)"));
  clients.expect_service();
}

// A few requests make the server send much: it does so into the limit.
TEST(SlowClients, WhoeverAsksForMoreThanItReadsIsClosedAtTheLimitOfPendingBytes) {
  SlowClients clients({.write_s = kNever, .pending_bytes = 4 << 20});
  const auto here = clients.run().connect("here");
  const Bytes chunk = random_bytes(kMaxMessageBytes, 1);
  ASSERT_TRUE(put(clients.run(), *here, chunk));
  BareClient deaf(clients.member(), kSmallBuffer);
  deaf.log_in();
  deaf.subscribe("_INBOX.member.x");
  const std::string wanted = NatsSubjects("run").get_chunk("here", key_of(chunk));
  for (int i = 0; i < kFloodMessages; ++i) deaf.request(wanted, "_INBOX.member.x");
  EXPECT_THAT(clients.reason_of_departure(), HasSubstr("Slow Consumer (Pending Bytes)"));
  clients.expect_service();
}

// With limits that are never reached, it would last forever.
TEST(SlowClients, WhoeverStopsReadingHoldsUpNobody) {
  SlowClients clients({.write_s = kNever});
  std::vector<std::unique_ptr<BareClient>> deaf;
  for (int i = 0; i < 5; ++i) deaf.push_back(clients.deaf_member());
  clients.flood(kFloodMessages);
  clients.expect_service();
  EXPECT_EQ(clients.departures(), 0u) << "they are still there";
}

// The honest ones have nothing to say for long either, but they answer.
TEST(SlowClients, WhoeverFallsSilentIsClosed) {
  SlowClients clients({.silence_s = 3});
  BareClient silent(clients.member());
  silent.log_in();
  EXPECT_TRUE(silent.read_until("Stale Connection"));
  EXPECT_THAT(clients.reason_of_departure(), HasSubstr("Stale Connection"));
  clients.expect_service();
}

// TLS is all that they do.
TEST(SlowClients, WhoeverNeverLogsInIsClosedAtTheLimitForHandshakes) {
  SlowClients clients({.handshake_s = 1});
  std::vector<std::unique_ptr<BareClient>> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(std::make_unique<BareClient>(clients.member()));
  clients.expect_service();
  for (const auto& one : strangers) EXPECT_TRUE(one->read_until("Authentication Timeout"));
}

}  // namespace
}  // namespace thinwire::transport
