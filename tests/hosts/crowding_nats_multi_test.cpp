// Whoever makes many connections to a run's own server is shut out of the run, and nobody else.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/base/clock.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/connection_limit.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/serve_run.h"

namespace thinwire::hosts {
namespace {

constexpr double kPatience = 60;  // seconds

// A run that is served, and that nobody has joined.
class Crowding : public testing::Test {
 protected:
  Crowding() {
    prepare_tiny_corpus(folder_);
    ServeOptions options;
    options.listen = "127.0.0.1:0";
    options.ready_file = ready_;
    options.stop = &stop_;
    serving_ = std::thread([this, options] { (void)serve_run(tiny_recipe(folder_), options); });
    while (!fs::exists(ready_)) std::this_thread::yield();
    const auto ready = nlohmann::json::parse(read_text_file(ready_));
    access_ = parse_access(ready["address"], ready["token"], "");
  }
  ~Crowding() override {
    stop_ = true;
    serving_.join();
  }

  Identity enrolled() {
    const Identity self{make_seed(), ""};
    const auto signer = make_signer(self.seed), token = make_signer(access_.newcomer.seed);
    const auto newcomer = connect(access_, access_.newcomer);
    RequestClient client(*newcomer, access_.founder, *signer);
    const auto done = client.ask(
        RequestKind::kEnrol,
        encode_enrolment(access_.founder, signer->key(), *token, Role::kMember, ""), kPatience);
    EXPECT_TRUE(done) << done.error().message;
    return self;
  }
  // Whether all of them lost their connection.
  static bool shut_out(const std::vector<std::unique_ptr<transport::Courier>>& couriers) {
    const Stopwatch watch;
    const auto connected = [](const auto& courier) { return courier->connected(); };
    while (std::ranges::any_of(couriers, connected)) {
      if (watch.seconds() > kPatience) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const fs::path folder_ = test_folder();
  const fs::path ready_ = folder_ / "ready.json";
  std::atomic<bool> stop_ = false;
  std::thread serving_;
  Access access_;
};

TEST_F(Crowding, EndsWithItsAuthorBeingShutOut) {
  const Identity honest = enrolled(), crowding = enrolled();
  const auto beside = connect(access_, honest);
  std::vector<std::unique_ptr<transport::Courier>> crowd;
  while (crowd.size() <= kMaxConnections) {
    auto courier = try_connect(access_, crowding);
    if (!courier) break;
    crowd.push_back(std::move(courier));
  }
  EXPECT_TRUE(shut_out(crowd));
  EXPECT_EQ(try_connect(access_, crowding), nullptr);
  EXPECT_TRUE(try_connect(access_, honest)->connected());
}

// Many machines may enrol at once with the same token.
TEST_F(Crowding, IsNoneOfNewcomers) {
  std::vector<std::unique_ptr<transport::Courier>> newcomers;
  while (newcomers.size() <= kMaxConnections) {
    newcomers.push_back(connect(access_, access_.newcomer));
  }
  (void)enrolled();
  EXPECT_NE(try_connect(access_, access_.newcomer), nullptr);
}

}  // namespace
}  // namespace thinwire::hosts
