#include "thinwire/member/blob_fetcher.h"

#include <gtest/gtest.h>

#include "thinwire/transport/courier/courier_memory.h"

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

}  // namespace
}  // namespace thinwire::member
