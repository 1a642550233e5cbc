// A run that programs serve, relay, check, join and give tokens for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/file.h"
#include "thinwire/config/check.h"
#include "thinwire/joining.h"
#include "thinwire/keys.h"
#include "thinwire/machine_check.h"
#include "thinwire/relaying.h"
#include "thinwire/run_status.h"
#include "thinwire/serving.h"

namespace thinwire {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

using Entry = std::pair<std::string, std::string>;  // address and token

class ServedRun : public testing::Test {
 protected:
  void SetUp() override {
    prepare_tiny_corpus(folder_);
    write_file(folder_ / "recipe.toml",
               config::print_recipe(tiny_recipe(folder_, {"train.workers=1", "sync.method=distro",
                                                          "run.dir=" + run().string()})));
    serving_ = std::async(std::launch::async, [this] {
      ServingOptions options;
      options.listen = "127.0.0.1:0";
      options.stop = &stop_;
      options.on_ready = [this](const std::string& address, const std::string& token) {
        ready_.set_value({address, token});
      };
      return serve_run(Recipe(folder_ / "recipe.toml"), options);
    });
    address_ = ready_.get_future().get().first;
  }
  void TearDown() override { stop_ = true; }

  fs::path run() const { return folder_ / "served"; }
  JoiningResult join(const Entry& entry) {
    JoiningOptions options;
    options.address = entry.first;
    options.token = entry.second;
    options.folder = folder_ / "member";
    return join_run(options);
  }

  const fs::path folder_ = test_folder();
  std::atomic<bool> stop_ = false;
  std::promise<Entry> ready_;
  std::string address_;
  std::future<ServingResult> serving_;
};

TEST_F(ServedRun, IsJoinedThroughARelayWithATokenThatWasIssued) {
  const std::string token = issue_token(run(), {.days = 1});
  EXPECT_THAT(check_machine(address_, token), testing::Contains(HasSubstr("speed: a step takes")));

  std::atomic<bool> ends = false;
  std::promise<Entry> behind;
  auto relaying = std::async(std::launch::async, [&] {
    RelayingOptions options;
    options.address = address_;
    options.token = token;
    options.listen = "127.0.0.1:0";
    options.folder = folder_ / "relay";
    options.on_ready = [&](const std::string& address, const std::string& of_relay) {
      behind.set_value({address, of_relay});
    };
    options.stop = &ends;
    return relay_run(options);
  });
  const JoiningResult joined = join(behind.get_future().get());
  EXPECT_TRUE(joined.finished);
  EXPECT_EQ(joined.steps, 12);
  ends = true;
  EXPECT_GT(relaying.get().to_members, 0u);

  const std::vector<RunKey> keys = list_keys(run());
  const auto key = std::ranges::find(keys, false, &RunKey::token);
  ASSERT_NE(key, keys.end());
  EXPECT_EQ(key->member, 0);
  const auto used = std::ranges::find(keys, key->enrolled_with, &RunKey::id);
  ASSERT_NE(used, keys.end());
  EXPECT_TRUE(used->token);
  EXPECT_EQ(used->expires, used->since + 86400);

  const ServingResult served = serving_.get();
  EXPECT_TRUE(served.finished);
  EXPECT_EQ(served.digest, joined.digest);
}

TEST_F(ServedRun, RefusesATokenThatWasRevoked) {
  const std::string token = issue_token(run(), {.role = KeyRole::kObserver, .single_use = true});
  const std::vector<RunKey> keys = list_keys(run());
  EXPECT_EQ(keys.back().role, KeyRole::kObserver);
  EXPECT_TRUE(keys.back().single_use);
  EXPECT_THAT(revoke_key(run(), keys.back().id), HasSubstr("revoked token " + keys.back().id));
  EXPECT_TRUE(list_keys(run()).back().revoked);
  EXPECT_THAT(tests::error_of([&] {
                (void)join({address_, token});
              }),
              HasSubstr("does not accept the token"));
  EXPECT_THAT(tests::error_of([&] { (void)revoke_key(run(), "abc"); }), HasSubstr("too short"));
  EXPECT_THAT(tests::error_of([&] { (void)issue_token(folder_); }),
              HasSubstr("not the folder of a run that `thinwire serve` has served"));
}

}  // namespace
}  // namespace thinwire
