#include "thinwire/hosts/connection_limit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "thinwire/transport/courier/courier_memory.h"
#include "thinwire/transport/nats/connection_notice.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PublicKey fresh_key() { return make_signer(make_seed())->key(); }

// A coordinator to whom a server gives notice of connections.
class ConnectionLimitTest : public testing::Test {
 protected:
  void say(const char* topic, const PublicKey& owner, uint64_t connection) {
    const std::string text =
        fmt::format(R"({{"client":{{"id":{},"user":"{}"}}}})", connection,
                    transport::encode_public_key(transport::NKeyKind::kUser, owner));
    server_->publish(topic, Bytes(text.begin(), text.end()));
  }
  void begin(const PublicKey& owner, uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) say(transport::kArrivalTopic, owner, first + i);
  }
  void end(const PublicKey& owner, uint64_t connection) {
    say(transport::kDepartureTopic, owner, connection);
  }
  std::vector<PublicKey> exceeded(double now) {
    network_.run_until(network_.now() + 1);
    return limit_.exceeded(now);
  }

  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> courier_ = network_.connect("coordinator");
  const std::unique_ptr<transport::Courier> server_ =
      network_.connect(transport::kServerParticipant);
  ConnectionLimit limit_{*courier_};
  const PublicKey key_ = fresh_key();
};

TEST_F(ConnectionLimitTest, NamesWhoHasMoreThanTheLimitAtATime) {
  const PublicKey other = fresh_key();
  begin(key_, 0, kMaxConnections);
  begin(other, 1000, kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  begin(key_, kMaxConnections, 1);
  EXPECT_THAT(exceeded(1), ElementsAre(key_));
  EXPECT_THAT(exceeded(2), IsEmpty()) << "it was named already";
}

TEST_F(ConnectionLimitTest, ConnectionsThatEndedDoNotCount) {
  for (uint64_t i = 0; i < 5 * kMaxConnections; ++i) {
    begin(key_, i, 1);
    end(key_, i);
  }
  begin(key_, 1000, kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  end(fresh_key(), 1000);
  end(key_, 999);
  begin(key_, 1000, 1);  // said twice
  EXPECT_THAT(exceeded(1), IsEmpty());
}

TEST_F(ConnectionLimitTest, ThoseOfWhoseEndNothingWasHeardAreForgotten) {
  begin(key_, 0, kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  begin(key_, 100, kMaxConnections);
  EXPECT_THAT(exceeded(kCountedSeconds + 1), IsEmpty());
}

TEST_F(ConnectionLimitTest, AServerThatCannotBeReachedMayHaveRestarted) {
  begin(key_, 0, kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  network_.disconnect("coordinator");
  EXPECT_THAT(exceeded(1), IsEmpty());
  network_.reconnect("coordinator");
  begin(key_, 0, kMaxConnections);
  EXPECT_THAT(exceeded(2), IsEmpty());
}

TEST_F(ConnectionLimitTest, OnlyTheServerIsBelieved) {
  const auto liar = network_.connect("liar");
  for (uint64_t i = 0; i < 2 * kMaxConnections; ++i) {
    const std::string text =
        fmt::format(R"({{"client":{{"id":{},"user":"{}"}}}})", i,
                    transport::encode_public_key(transport::NKeyKind::kUser, key_));
    liar->publish(transport::kArrivalTopic, Bytes(text.begin(), text.end()));
  }
  EXPECT_THAT(exceeded(0), IsEmpty());
}

}  // namespace
}  // namespace thinwire::hosts
