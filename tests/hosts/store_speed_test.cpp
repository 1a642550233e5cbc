// What a machine fetches from the store before it joins, to know its link.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/couriers/courier_memory.h"
#include "thinwire/hosts/store_need.h"

namespace thinwire::hosts {
namespace {

class StoreSpeed : public testing::Test {
 protected:
  StoreSpeed() {
    runs_ = std::thread([this] {
      while (!ended_) {
        if (!network_.step()) std::this_thread::yield();
      }
    });
  }
  ~StoreSpeed() override {
    ended_ = true;
    runs_.join();
  }
  // No two chunks are equal.
  transport::BlobId store(size_t bytes) {
    Bytes blob(bytes);
    for (size_t at = 0; at < bytes; at += 1000) blob[at] = static_cast<uint8_t>(at / 1000 * 7);
    for (size_t at = 0; at + 1 < bytes; at += transport::kMaxMessageBytes) {
      blob[at + 1] = static_cast<uint8_t>(at / transport::kMaxMessageBytes);
    }
    std::atomic<bool> stored = false;
    const transport::BlobId id =
        holder_->put(std::make_shared<const Bytes>(std::move(blob)), transport::Priority::kRound,
                     [&](const Result<void>&) { stored = true; });
    while (!stored) std::this_thread::yield();
    return id;
  }

  std::atomic<bool> ended_ = false;
  transport::MemoryNetwork network_{{}};
  std::unique_ptr<transport::Courier> holder_ = network_.connect("holder");
  std::unique_ptr<transport::Courier> guest_ = network_.connect("guest");
  std::thread runs_;
};

TEST_F(StoreSpeed, IsThatOfChunks) {
  const auto bytes_s = measure_store(*guest_, store(15 * transport::kMaxMessageBytes), "holder");
  ASSERT_TRUE(bytes_s);
  EXPECT_GT(*bytes_s, 0);
}

TEST_F(StoreSpeed, IsNotKnownFromSmallBlobs) {
  EXPECT_FALSE(measure_store(*guest_, store(2 * transport::kMaxMessageBytes - 1), "holder"));
  EXPECT_FALSE(measure_store(*guest_, store(100), "holder"));
}

TEST_F(StoreSpeed, IsNotKnownIfNobodyHasTheBlob) {
  const transport::BlobId blob = store(5 * transport::kMaxMessageBytes);
  EXPECT_FALSE(measure_store(*guest_, blob, "guest"));
  const auto chunks = std::make_shared<const Bytes>(5 * transport::kMaxMessageBytes);
  EXPECT_FALSE(measure_store(*guest_, transport::blob_id(*chunks), "holder"));
}

}  // namespace
}  // namespace thinwire::hosts
