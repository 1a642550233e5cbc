#include "thinwire/hosts/requests.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/couriers/courier_memory.h"
#include "tests/transport/idle_courier.h"
#include "thinwire/base/nkey.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;

constexpr double kPatience = 30;  // only what hangs takes that long

// A coordinator's requests that answers every request with `reply`, and a network that runs.
class RequestWorld {
 public:
  using Reply =
      std::function<void(RequestServer& requests, const RequestServer::IncomingRequest& incoming)>;

  explicit RequestWorld(Reply reply, const transport::MemoryFaults& faults = {})
      : network_({.faults = faults}),
        coordinator_(make_signer(make_seed())),
        courier_(network_.connect(participant_name(coordinator_->key()))),
        requests_(*courier_, *coordinator_),
        guest_courier_(network_.connect("guest")),
        runs_([this] {
          while (!ended_) {
            if (!network_.step()) std::this_thread::yield();
          }
        }),
        serves_([this, reply = std::move(reply)] {
          while (!ended_) {
            for (const RequestServer::IncomingRequest& incoming : requests_.take(0.01))
              reply(requests_, incoming);
          }
        }) {}
  ~RequestWorld() {
    ended_ = true;
    runs_.join();
    serves_.join();
  }
  RequestWorld(const RequestWorld&) = delete;
  RequestWorld& operator=(const RequestWorld&) = delete;

  transport::Courier& guest() { return *guest_courier_; }
  PublicKey run() const { return coordinator_->key(); }

 private:
  std::atomic<bool> ended_ = false;
  transport::MemoryNetwork network_;
  std::unique_ptr<Signer> coordinator_;
  std::unique_ptr<transport::Courier> courier_;
  RequestServer requests_;
  std::unique_ptr<transport::Courier> guest_courier_;
  std::thread runs_;
  std::thread serves_;
};

void echo(RequestServer& requests, const RequestServer::IncomingRequest& incoming) {
  requests.grant(incoming, incoming.request.body);
}

TEST(RequestServer, AnswersWithWhatWasAsked) {
  RequestWorld world([](RequestServer& requests, const RequestServer::IncomingRequest& incoming) {
    EXPECT_EQ(incoming.name, "guest");
    echo(requests, incoming);
  });
  const auto own = make_signer(make_seed());
  RequestClient client(world.guest(), world.run(), *own);
  EXPECT_EQ(client.ask(RequestKind::kProbe, {1, 2}, kPatience).value_or(Bytes{}), Bytes({1, 2}));
  const auto all = client.ask_all(RequestKind::kProbe, {{1}, {2}, {3}}, kPatience);
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(Bytes{1}, Bytes{2}, Bytes{3}));
}

TEST(RequestServer, ARefusalComesWithItsReason) {
  RequestWorld world([](RequestServer& requests, const RequestServer::IncomingRequest& incoming) {
    requests.refuse(incoming, "no space");
  });
  const auto own = make_signer(make_seed());
  RequestClient client(world.guest(), world.run(), *own);
  const auto answer = client.ask(RequestKind::kEnrol, {}, kPatience);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::kRefused);
  EXPECT_EQ(answer.error().message, "no space");
}

TEST(RequestServer, ARequestIsRepeatedUntilItIsAnswered) {
  RequestWorld world(echo, {.lose = 0.5, .duplicate = 0.3});
  const auto own = make_signer(make_seed());
  RequestClient client(world.guest(), world.run(), *own);
  EXPECT_EQ(client.ask(RequestKind::kProbe, {7}, kPatience).value_or(Bytes{}), Bytes{7});
}

TEST(RequestClient, WaitsForACoordinatorThatIsDownAndSaysSo) {
  std::atomic<bool> up = false;
  RequestWorld world([&](RequestServer& requests, const RequestServer::IncomingRequest& incoming) {
    if (up) echo(requests, incoming);
  });
  const auto own = make_signer(make_seed());
  RequestClient client(world.guest(), world.run(), *own);
  client.be_patient({.wait_s = kPatience, .begins = [&] { up = true; }});
  EXPECT_EQ(client.ask(RequestKind::kPlace, {7}, 0.05).value_or(Bytes{}), Bytes{7});
}

TEST(RequestClient, DoesNotWaitOnceItIsStopped) {
  std::atomic<bool> stop = false;
  RequestWorld world([](RequestServer&, const RequestServer::IncomingRequest&) {});
  const auto own = make_signer(make_seed());
  RequestClient client(world.guest(), world.run(), *own);
  client.be_patient({.wait_s = kPatience, .begins = [&] { stop = true; }, .stop = &stop});
  const auto answer = client.ask(RequestKind::kPlace, {}, 0.05);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::kAborted);
}

// As when its token was revoked meanwhile.
TEST(RequestClient, DoesNotWaitOnceItIsNoLongerLetIn) {
  class ClosedCourier final : public transport::IdleCourier {
   public:
    std::string denied() const override { return "no longer admitted"; }
  };
  ClosedCourier courier;
  const auto own = make_signer(make_seed());
  RequestClient client(courier, own->key(), *own);
  client.be_patient({.wait_s = kPatience});
  const auto answer = client.ask(RequestKind::kPlace, {}, kPatience);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::kRefused);
  EXPECT_EQ(answer.error().message, "no longer admitted");
}

TEST(RequestServer, AnAnswerThatAnotherSignsIsNone) {
  const auto another = make_signer(make_seed());
  RequestWorld world(echo);
  const auto own = make_signer(make_seed());
  RequestClient client(world.guest(), another->key(), *own);
  const auto answer = client.ask(RequestKind::kProbe, {}, 0.2);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::kDeadline);
}

}  // namespace
}  // namespace thinwire::hosts
