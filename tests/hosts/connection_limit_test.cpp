#include "thinwire/hosts/connection_limit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/couriers/courier_memory.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PublicKey fresh_key() { return make_signer(make_seed())->key(); }

// A coordinator to whom a server gives notice of connections.
class ConnectionLimitTest : public testing::Test {
 protected:
  void say(const char* topic, const PublicKey& owner, uint64_t connection) {
    const std::string text = fmt::format(R"({{"client":{{"id":{},"user":"{}"}}}})", connection,
                                         encode_public_key(NKeyKind::kUser, owner));
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

TEST_F(ConnectionLimitTest, NamesWhoHasHadMoreThanTheLimitForTooLong) {
  const PublicKey other = fresh_key();
  begin(key_, 0, kMaxConnections);
  begin(other, 1000, kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  begin(key_, kMaxConnections, 1);
  EXPECT_THAT(exceeded(1), IsEmpty());
  EXPECT_THAT(exceeded(kToleratedSeconds), IsEmpty());
  EXPECT_THAT(exceeded(1 + kToleratedSeconds), ElementsAre(key_));
  EXPECT_THAT(exceeded(2 + kToleratedSeconds), IsEmpty()) << "it was named already";
}

TEST_F(ConnectionLimitTest, WhoeverReconnectsMayHaveMoreForAWhile) {
  begin(key_, 0, 3 * kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  for (uint64_t i = 0; i < 2 * kMaxConnections; ++i) end(key_, i);
  EXPECT_THAT(exceeded(kToleratedSeconds), IsEmpty());
  begin(key_, 1000, 1);
  EXPECT_THAT(exceeded(kToleratedSeconds + 1), IsEmpty());
}

TEST_F(ConnectionLimitTest, ConnectionsThatEndedDoNotCount) {
  for (uint64_t i = 0; i < 5 * kMaxConnections; ++i) {
    begin(key_, i, 1);
    end(key_, i);
  }
  begin(key_, 1000, kMaxConnections);
  end(fresh_key(), 2000);
  end(key_, 999);
  begin(key_, 1000, 1);  // said twice
  EXPECT_THAT(exceeded(0), IsEmpty());
  EXPECT_THAT(exceeded(kToleratedSeconds), IsEmpty());
}

TEST_F(ConnectionLimitTest, NoticesMayArriveInTheOtherOrder) {
  for (uint64_t i = 0; i < 5 * kMaxConnections; ++i) {
    end(key_, i);
    begin(key_, i, 1);
  }
  EXPECT_THAT(exceeded(0), IsEmpty());
  EXPECT_THAT(exceeded(kToleratedSeconds), IsEmpty());
}

TEST_F(ConnectionLimitTest, ConnectionsCountHoweverOldTheyAre) {
  for (uint64_t i = 0; i <= kMaxConnections; ++i) {
    begin(key_, i, 1);
    EXPECT_THAT(exceeded(1e4 * static_cast<double>(i)), IsEmpty());
  }
  EXPECT_THAT(exceeded(1e6), ElementsAre(key_));
}

TEST_F(ConnectionLimitTest, AServerThatCannotBeReachedMayHaveRestarted) {
  begin(key_, 0, kMaxConnections);
  EXPECT_THAT(exceeded(0), IsEmpty());
  network_.disconnect("coordinator");
  EXPECT_THAT(exceeded(1), IsEmpty());
  network_.reconnect("coordinator");
  begin(key_, 100, kMaxConnections);
  EXPECT_THAT(exceeded(2), IsEmpty());
  EXPECT_THAT(exceeded(2 + kToleratedSeconds), IsEmpty());
}

TEST_F(ConnectionLimitTest, OnlyTheServerIsBelieved) {
  const auto liar = network_.connect("liar");
  for (uint64_t i = 0; i < 2 * kMaxConnections; ++i) {
    const std::string text = fmt::format(R"({{"client":{{"id":{},"user":"{}"}}}})", i,
                                         encode_public_key(NKeyKind::kUser, key_));
    liar->publish(transport::kArrivalTopic, Bytes(text.begin(), text.end()));
  }
  EXPECT_THAT(exceeded(0), IsEmpty());
  EXPECT_THAT(exceeded(kToleratedSeconds), IsEmpty());
}

}  // namespace
}  // namespace thinwire::hosts
