#include "thinwire/member/blob_fetcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "tests/transport/idle_courier.h"

namespace thinwire::member {
namespace {

using transport::Priority;

class BlobFetches : public testing::Test {
 protected:
  bool has_it() {
    const auto got = fetcher_.wait(id_, {"there"}, Priority::kRound, [] { return true; });
    return got.has_value();
  }
  void store() {
    there_->put(std::make_shared<const Bytes>(blob_), Priority::kRound, [](const Result<void>&) {});
    network_.run();
  }

  const Bytes blob_ = {1, 2, 3};
  const transport::BlobId id_ = transport::blob_id(blob_);
  transport::MemoryNetwork network_{{.timeout_s = 5}};
  const std::unique_ptr<transport::Courier> here_ = network_.connect("here");
  const std::unique_ptr<transport::Courier> there_ = network_.connect("there");
  BlobFetcher fetcher_{*here_, 1e6};  // it never asks again for what nobody has
};

TEST_F(BlobFetches, AskAgainAtOnceWhenNobodyAnsweredInTime) {
  store();
  network_.disconnect("here");
  fetcher_.start(id_, {"there"}, Priority::kRound);
  network_.run();  // until the time-out
  network_.reconnect("here");
  EXPECT_FALSE(has_it());  // and asks
  network_.run();
  EXPECT_TRUE(has_it());
}

TEST_F(BlobFetches, WaitBeforeTheyAskAgainForWhatNobodyHas) {
  fetcher_.start(id_, {"there"}, Priority::kRound);
  network_.run();
  store();
  EXPECT_FALSE(has_it());
  network_.run();
  EXPECT_FALSE(has_it());
}

TEST_F(BlobFetches, AskTheSubstituteAfterTheHolders) {
  BlobFetcher fetcher(*here_, 0, "there");
  const std::function<bool()> once = [] { return true; };
  const auto has_it = [&] {
    return fetcher.wait(id_, {"away"}, Priority::kRound, once).has_value();
  };
  store();
  fetcher.start(id_, {"away"}, Priority::kRound);
  network_.run();
  EXPECT_FALSE(has_it());  // and asks the other
  network_.run();
  EXPECT_TRUE(has_it());
}

// Only notes what is asked for; the tests answer.
class NotedCourier final : public transport::IdleCourier {
 public:
  bool connected() const override { return is_connected; }
  void get_part(const Sha256&, const transport::BlobId&, std::vector<std::string> holders, Priority,
                Got got) override {
    asked.push_back(holders.front());
    last_ = std::move(got);
  }
  void answer(const Result<Bytes>& result) { std::exchange(last_, {})(result); }

  bool is_connected = true;
  std::vector<std::string> asked;

 private:
  Got last_;
};

// One of two holders is at a site whose server does not answer.
class BlobFetchesFromSites : public testing::Test {
 protected:
  // Whom a blob of `holder` is asked of first.
  std::string asked_for(const std::string& holder) {
    last_ = {transport::blob_id(Bytes{++blobs_}).name, 1};
    ask(holder);
    return courier_.asked.back();
  }
  void ask(const std::string& holder) { fetcher_.start(last_, {holder}, Priority::kCatchUp); }
  void answer() { courier_.answer(Bytes{blobs_}); }
  void fail_with(FailureKind kind) { courier_.answer(fail(kind, "no")); }

  NotedCourier courier_;
  BlobFetcher fetcher_{courier_, 0, "keeper"};
  transport::BlobId last_;
  uint8_t blobs_ = 0;
};

TEST_F(BlobFetchesFromSites, WaitForASilentHolderOnceAndNotForEveryBlob) {
  EXPECT_EQ(asked_for("away"), "away");
  fail_with(FailureKind::kDeadline);
  ask("away");
  EXPECT_EQ(courier_.asked.back(), "keeper");
  answer();
  EXPECT_EQ(asked_for("away"), "keeper") << "at once";
  answer();
  EXPECT_EQ(asked_for("there"), "there");
  answer();
  fetcher_.heard("away");
  EXPECT_EQ(asked_for("away"), "away");
}

TEST_F(BlobFetchesFromSites, GoBackToAHolderThatHasAnswered) {
  EXPECT_EQ(asked_for("away"), "away");
  fail_with(FailureKind::kDeadline);
  EXPECT_EQ(asked_for("away"), "keeper");
  fail_with(FailureKind::kLostPeer);
  ask("away");
  EXPECT_EQ(courier_.asked.back(), "away") << "the substitute does not have it";
  answer();
  EXPECT_EQ(asked_for("away"), "away");
}

TEST_F(BlobFetchesFromSites, BlameNobodyWhileThisMemberIsCutOff) {
  EXPECT_EQ(asked_for("away"), "away");
  courier_.is_connected = false;
  fail_with(FailureKind::kDeadline);
  courier_.is_connected = true;
  EXPECT_EQ(asked_for("away"), "away");
}

}  // namespace
}  // namespace thinwire::member
