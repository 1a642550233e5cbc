// The rates within which a participant's traffic stays.
#include "thinwire/transport/courier/line_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/blob_transfers.h"

namespace thinwire::transport {
namespace {

constexpr double kUp = 5e6, kDown = 20e6;  // bit/s
constexpr double kWindow = 5;              // seconds
constexpr double kAnswer = 0.02;           // seconds until a fast line has moved a chunk

// A fast line on which transfers go, in virtual time.
class FastLine final : public ChunkWire {
 public:
  // `late`: so many seconds at most pass until the machine does what is due.
  explicit FastLine(const links::Link& link, double late = 0) : late_(late), limit_(link) {}

  void store(uint64_t ticket, const Chunk& chunk) override {
    limit_.sent(now_, chunk.bytes.size());
    sent_.emplace_back(now_, chunk.bytes.size());
    answers_.emplace_back(now_ + kAnswer, [this, ticket] { transfers_.stored(now_, ticket, {}); });
  }
  void fetch(uint64_t ticket, const ChunkKey& key, const std::string&) override {
    limit_.sent(now_, 0);
    answers_.emplace_back(now_ + kAnswer, [this, ticket, key] {
      const auto found = chunks_.find(key.chunk);
      if (found == chunks_.end()) {
        return transfers_.fetched(now_, ticket, fail(FailureKind::kLostPeer, "it is not there"));
      }
      limit_.received(now_, found->second.size());
      received_.emplace_back(now_, found->second.size());
      transfers_.fetched(now_, ticket, found->second);
    });
  }

  void put(Bytes bytes) {
    const auto blob = std::make_shared<const BlobChunks>(std::make_shared<const Bytes>(bytes));
    transfers_.put(now_, blob, Priority::kRound, [](const Result<void>&) {});
  }
  // `there`: somebody has it.
  void get(const Bytes& bytes, bool there = true) {
    const BlobChunks blob(std::make_shared<const Bytes>(bytes));
    for (const Chunk& chunk : blob.chunks()) {
      if (there) chunks_[chunk.key.chunk] = Bytes(chunk.bytes.begin(), chunk.bytes.end());
    }
    transfers_.get(now_, blob.id().name, blob.id(), {"holder"}, Priority::kRound,
                   [](const Result<Bytes>&) {});
  }
  // Until nothing is left to do, or for so long.
  void run(double seconds) {
    const double end = now_ + seconds;
    while (now_ < end) {
      const double next = std::min(
          transfers_.next_deadline(),
          answers_.empty() ? std::numeric_limits<double>::infinity() : answers_.front().first);
      if (next > end) break;
      ASSERT_LE(++turns_, 100'000) << "it turns without end";
      now_ = std::max(now_, next) + late_ * random_.uniform();
      if (!answers_.empty() && answers_.front().first <= now_) {
        const auto answer = answers_.front().second;
        answers_.pop_front();
        answer();
      }
      transfers_.expire(now_);
      for (const auto& told : transfers_.take_answers()) told();
    }
    now_ = end;
  }

  using Moved = std::vector<std::pair<double, size_t>>;
  const Moved& sent() const { return sent_; }
  const Moved& received() const { return received_; }
  // The most bytes a second in any window of `seconds` that begins with a message, without it.
  static double most(const Moved& moved, double seconds = kWindow) {
    double most = 0;
    for (size_t i = 0; i < moved.size(); ++i) {
      double bytes = 0;
      for (size_t j = i + 1; j < moved.size() && moved[j].first < moved[i].first + seconds; ++j) {
        bytes += static_cast<double>(moved[j].second);
      }
      most = std::max(most, bytes / seconds);
    }
    return most;
  }
  static double mean(const Moved& moved) {
    double bytes = 0;
    for (const auto& [at, size] : moved) bytes += static_cast<double>(size);
    const double first = static_cast<double>(moved.front().second);
    return (bytes - first) / (moved.back().first - moved.front().first);
  }

 private:
  double now_ = 100;
  const double late_;
  Rng random_{7, 0};
  size_t turns_ = 0;
  LineLimit limit_;
  std::deque<std::pair<double, std::function<void()>>> answers_;
  std::map<Sha256, Bytes> chunks_;
  Moved sent_, received_;
  BlobTransfers transfers_{*this, 1e9, 1 << 30, &limit_};
};

Bytes some_bytes(size_t count, uint8_t seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 977 + seed);
  return bytes;
}

TEST(LineLimit, KeepsWhatIsSentAndReceivedWithinTheRates) {
  FastLine line({.up_bit_s = kUp, .down_bit_s = kDown});
  line.put(some_bytes(20 << 20, 1));
  line.get(some_bytes(40 << 20, 2));
  line.run(120);
  EXPECT_GE(line.sent().size(), 80u);
  EXPECT_GE(line.received().size(), 160u);
  EXPECT_LE(FastLine::most(line.sent()), 1.05 * kUp / 8);
  EXPECT_LE(FastLine::most(line.received()), 1.05 * kDown / 8);
  EXPECT_GE(FastLine::mean(line.sent()), 0.95 * kUp / 8) << "the rate is used";
  EXPECT_GE(FastLine::mean(line.received()), 0.95 * kDown / 8);
}

TEST(LineLimit, MakesUpForWhatABusyMachineDoesLate) {
  FastLine line({.up_bit_s = kUp, .down_bit_s = kDown}, 0.08);
  line.put(some_bytes(20 << 20, 1));
  line.get(some_bytes(40 << 20, 2));
  line.run(120);
  EXPECT_GE(FastLine::mean(line.sent()), 0.95 * kUp / 8);
  EXPECT_GE(FastLine::mean(line.received()), 0.95 * kDown / 8);
  EXPECT_LE(FastLine::most(line.sent()), 1.05 * kUp / 8);
  EXPECT_LE(FastLine::most(line.received()), 1.05 * kDown / 8);
}

TEST(LineLimit, LetsAnIdleLineGainNoMoreThanATenthOfASecond) {
  constexpr double kRate = 1e8;  // bit/s, of which a message is 0.02 s
  FastLine line({.up_bit_s = kRate});
  for (int i = 0; i < 10; ++i) {
    line.put(some_bytes(30 << 20, static_cast<uint8_t>(i)));
    line.run(30);
  }
  EXPECT_LE(FastLine::most(line.sent(), 2), 1.05 * kRate / 8);
  EXPECT_LE(FastLine::most(line.sent(), 0.5), 1.2 * kRate / 8);
  EXPECT_GE(FastLine::most(line.sent(), 0.5), 1.1 * kRate / 8) << "after a pause";
}

TEST(LineLimit, IsNoneWithoutRates) {
  FastLine line({});
  line.put(some_bytes(20 << 20, 1));
  line.run(60);
  EXPECT_GT(FastLine::mean(line.sent()), 20 * kUp / 8);
}

TEST(LineLimit, CountsWhatIsTooSmallToWait) {
  LineLimit limit({.up_bit_s = 8000});
  EXPECT_TRUE(limit.may_send(5));
  limit.sent(5, 2000);
  EXPECT_FALSE(limit.may_send(7));
  EXPECT_TRUE(limit.may_send(7.5));
  EXPECT_TRUE(limit.may_request(5)) << "without a rate";
}

TEST(LineLimit, DoesNotCountWhatIsAskedForInVain) {
  FastLine line({.up_bit_s = kUp, .down_bit_s = kDown});
  for (int i = 0; i < 30; ++i) {
    line.get(some_bytes(1 << 20, static_cast<uint8_t>(i)), false);
    line.run(0.1);
  }
  line.get(some_bytes(3 << 20, 200));
  line.run(3);
  EXPECT_GE(line.received().size(), 13u) << "3 MiB take 1.3 s";
}

}  // namespace
}  // namespace thinwire::transport
