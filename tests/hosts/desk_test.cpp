#include "thinwire/hosts/desk.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>

#include "thinwire/transport/courier_memory.h"
#include "thinwire/transport/nkey.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;

constexpr double kPatience = 30;  // only what hangs takes that long

// A coordinator's desk that answers every request with `reply`, and a network that runs.
class DeskWorld {
 public:
  using Reply = std::function<void(Desk& desk, const Desk::Visitor& visitor)>;

  explicit DeskWorld(Reply reply, const transport::MemoryFaults& faults = {})
      : network_({.faults = faults}),
        coordinator_(make_signer(make_seed())),
        courier_(network_.connect(transport::participant_name(coordinator_->key()))),
        desk_(*courier_, *coordinator_),
        guest_courier_(network_.connect("guest")),
        runs_([this] {
          while (!ended_) {
            if (!network_.step()) std::this_thread::yield();
          }
        }),
        serves_([this, reply = std::move(reply)] {
          while (!ended_) {
            for (const Desk::Visitor& visitor : desk_.take(0.01)) reply(desk_, visitor);
          }
        }) {}
  ~DeskWorld() {
    ended_ = true;
    runs_.join();
    serves_.join();
  }
  DeskWorld(const DeskWorld&) = delete;
  DeskWorld& operator=(const DeskWorld&) = delete;

  transport::Courier& guest() { return *guest_courier_; }
  PublicKey run() const { return coordinator_->key(); }

 private:
  std::atomic<bool> ended_ = false;
  transport::MemoryNetwork network_;
  std::unique_ptr<Signer> coordinator_;
  std::unique_ptr<transport::Courier> courier_;
  Desk desk_;
  std::unique_ptr<transport::Courier> guest_courier_;
  std::thread runs_;
  std::thread serves_;
};

void echo(Desk& desk, const Desk::Visitor& visitor) { desk.grant(visitor, visitor.request.body); }

TEST(Desk, AnswersWithWhatWasAsked) {
  DeskWorld world([](Desk& desk, const Desk::Visitor& visitor) {
    EXPECT_EQ(visitor.name, "guest");
    echo(desk, visitor);
  });
  const auto own = make_signer(make_seed());
  DeskClient client(world.guest(), world.run(), *own);
  EXPECT_EQ(client.ask(Ask::kProbe, {1, 2}, kPatience).value_or(Bytes{}), Bytes({1, 2}));
  const auto all = client.ask_all(Ask::kProbe, {{1}, {2}, {3}}, kPatience);
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(Bytes{1}, Bytes{2}, Bytes{3}));
}

TEST(Desk, ARefusalComesWithItsReason) {
  DeskWorld world(
      [](Desk& desk, const Desk::Visitor& visitor) { desk.refuse(visitor, "no room"); });
  const auto own = make_signer(make_seed());
  DeskClient client(world.guest(), world.run(), *own);
  const auto answer = client.ask(Ask::kEnrol, {}, kPatience);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::kRefused);
  EXPECT_EQ(answer.error().message, "no room");
}

TEST(Desk, ARequestIsRepeatedUntilItIsAnswered) {
  DeskWorld world(echo, {.lose = 0.5, .duplicate = 0.3});
  const auto own = make_signer(make_seed());
  DeskClient client(world.guest(), world.run(), *own);
  EXPECT_EQ(client.ask(Ask::kProbe, {7}, kPatience).value_or(Bytes{}), Bytes{7});
}

TEST(Desk, AnAnswerThatAnotherSignsIsNone) {
  const auto another = make_signer(make_seed());
  DeskWorld world(echo);
  const auto own = make_signer(make_seed());
  DeskClient client(world.guest(), another->key(), *own);
  const auto answer = client.ask(Ask::kProbe, {}, 0.2);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, FailureKind::kDeadline);
}

}  // namespace
}  // namespace thinwire::hosts
