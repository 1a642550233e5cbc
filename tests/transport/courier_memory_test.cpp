#include "tests/couriers/courier_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "courier_contract.h"
#include "thinwire/base/digest.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;

class MemoryWorld final : public CourierWorld {
 public:
  explicit MemoryWorld(const MemoryOptions& options = {}) : network(options) {}
  std::unique_ptr<Courier> connect(const std::string& name) override {
    return network.connect(name, link);
  }
  bool wait(MailBase& mail, size_t count) override {
    while (!mail.wait(count, 0)) {
      if (!network.step()) return false;
    }
    return true;
  }

  links::Link link{.up_bit_s = 8e6, .down_bit_s = 80e6, .delay_s = 0.05};
  MemoryNetwork network;
};

INSTANTIATE_TEST_SUITE_P(Couriers, CourierContract,
                         testing::Values(WorldKind{
                             "Memory",
                             [] { return std::unique_ptr<CourierWorld>(new MemoryWorld); }}),
                         [](const auto& kind) { return kind.param.name; });

// Every participant stores a blob, announces it, fetches what others announce, and appends; what
// each received is the trace.
uint64_t trace_of(uint64_t seed) {
  MemoryWorld world({.seed = seed,
                     .faults = {.statement_delay_s = 1,
                                .lose = 0.2,
                                .duplicate = 0.2,
                                .alter = 0.1,
                                .disconnect = 0.02,
                                .reconnect_s = 0.7}});
  std::string trace;
  std::vector<std::unique_ptr<Courier>> couriers;
  std::vector<std::unique_ptr<Subscription>> subscriptions;
  for (const std::string name : {"a", "b", "c"}) {
    couriers.push_back(world.connect(name));
    Courier* self = couriers.back().get();
    subscriptions.push_back(
        self->subscribe("", "has", [&, self](const std::string& from, const Bytes& x) {
          const auto blob = random_bytes(600000, x.front());
          self->get(blob_id(blob), {from}, Priority::kRound, [&, self](const Result<Bytes>& got) {
            trace += fmt::format("{} got {} at {:.6f}\n", self->self(), got.has_value(),
                                 world.network.now());
          });
        }));
    subscriptions.push_back(self->read("ledger", 1, [&, self](uint64_t sequence, const Bytes&) {
      trace += fmt::format("{} read {} at {:.6f}\n", self->self(), sequence, world.network.now());
    }));
  }
  for (uint8_t round = 0; round < 20; ++round) {
    Courier* self = couriers[round % 3].get();
    world.network.call_at(round, [self, round] {
      const auto blob = std::make_shared<const Bytes>(random_bytes(600000, round));
      self->put(blob, Priority::kRound, [self, round](const Result<void>& done) {
        if (done) self->publish("has", {round});
        self->append("ledger", round, {round}, [](const Result<uint64_t>&) {});
      });
    });
  }
  world.network.run();
  EXPECT_NE(trace.find("got true"), std::string::npos);
  EXPECT_NE(trace.find("read 1 "), std::string::npos);
  return hash_bytes(as_bytes(trace));
}

TEST(MemoryNetwork, TheSameSeedGivesTheSameTrace) {
  EXPECT_EQ(trace_of(1), trace_of(1));
  EXPECT_NE(trace_of(1), trace_of(2));
}

// 8 Mbit/s up, 80 down: a megabyte each way takes 1.1 s and 0.3 s, delays included, and both at
// once hardly more than the longer one. Requests wait for what is being sent, a chunk or two.
TEST(MemoryNetwork, BothDirectionsCarryAtOnce) {
  MemoryWorld world;
  const auto here = world.connect("here");
  const auto there = world.connect("there");
  const Bytes first = random_bytes(1'000'000, 1);
  ASSERT_TRUE(put(world, *there, first));
  const double start = world.network.now();
  Mail<double> done;
  here->get(blob_id(first), {"there"}, Priority::kRound,
            [&](const Result<Bytes>&) { done.add(world.network.now() - start); });
  here->put(std::make_shared<const Bytes>(random_bytes(1'000'000, 2)), Priority::kRound,
            [&](const Result<void>&) { done.add(world.network.now() - start); });
  ASSERT_TRUE(world.wait(done, 2));
  EXPECT_NEAR(done.all().back(), 1.1, 0.1);
}

TEST(MemoryNetwork, ALostConnectionIsTakenUpWithoutSendingAllAgain) {
  MemoryWorld world;
  const auto here = world.connect("here");
  Mail<bool> done;
  const Bytes blob = random_bytes(8 * kMaxMessageBytes, 1);
  here->put(std::make_shared<const Bytes>(blob), Priority::kRound,
            [&](const Result<void>& result) { done.add(result.has_value()); });
  world.network.run_until(1.5);
  world.network.disconnect("here");
  EXPECT_FALSE(here->connected());
  world.network.run_until(10);
  EXPECT_TRUE(done.all().empty());
  world.network.reconnect("here");
  EXPECT_TRUE(here->connected());
  ASSERT_TRUE(world.wait(done, 1));
  EXPECT_THAT(done.all(), ElementsAre(true));
  // 2.1 s of upload in all; at least a second of it was not repeated.
  EXPECT_LT(world.network.now(), 11.6);
}

TEST(MemoryNetwork, WhatIsNotAnsweredInTimeFails) {
  MemoryWorld world({.timeout_s = 5});
  const auto here = world.connect("here");
  world.network.disconnect("here");
  const Result<void> stored = put(world, *here, {1});
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, FailureKind::kDeadline);
  EXPECT_DOUBLE_EQ(world.network.now(), 5);
  const Result<uint64_t> appended = append(world, *here, "ledger", 0, "x");
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().kind, FailureKind::kDeadline);
}

TEST(MemoryNetwork, AFetchThatFailedGoesOnWhereItWas) {
  MemoryWorld world({.timeout_s = 2});
  const auto here = world.connect("here");
  const auto there = world.connect("there");
  const Bytes blob = random_bytes(40 * kMaxMessageBytes, 1);
  ASSERT_TRUE(put(world, *there, blob));
  const double start = world.network.now();
  world.network.call_at(start + 0.9, [&] { world.network.disconnect("here"); });
  ASSERT_FALSE(get(world, *here, blob_id(blob), {"there"}));
  world.network.reconnect("here");
  const double again = world.network.now();
  ASSERT_TRUE(get(world, *here, blob_id(blob), {"there"}));
  EXPECT_LT(world.network.now() - again, 0.6);  // 1.05 s in all
}

TEST(MemoryNetwork, AnAlteredChunkComesFromAnotherHolder) {
  MemoryWorld world;
  const auto here = world.connect("here");
  const auto there = world.connect("there");
  const Bytes blob = random_bytes(3 * kMaxMessageBytes, 1);
  ASSERT_TRUE(put(world, *here, blob));
  ASSERT_TRUE(put(world, *there, blob));
  const BlobChunks chunks(std::make_shared<const Bytes>(blob));
  for (const Chunk& chunk : chunks.chunks()) {
    ASSERT_TRUE(world.network.alter_chunk("here", chunk.key.chunk));
  }
  EXPECT_EQ(get(world, *there, chunks.id(), {"here", "there"}).value_or(Bytes()), blob);
  const Result<Bytes> altered = get(world, *there, chunks.id(), {"here"});
  ASSERT_FALSE(altered);
  EXPECT_EQ(altered.error().kind, FailureKind::kCorruptPayload);
}

TEST(MemoryNetwork, AFullDiskRefusesAndKeepsWhatItHas) {
  MemoryWorld world;
  const auto here = world.connect("here");
  world.network.set_disk_bytes(1000);
  ASSERT_TRUE(put(world, *here, random_bytes(900, 1)));
  const Result<void> second = put(world, *here, random_bytes(900, 2));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, FailureKind::kRefused);
  EXPECT_FALSE(append(world, *here, "ledger", 0, std::string(101, 'x')));
  EXPECT_TRUE(append(world, *here, "ledger", 0, "x"));
  EXPECT_TRUE(get(world, *here, blob_id(random_bytes(900, 1)), {"here"}));
}

TEST(MemoryNetwork, StatementsAreLostDoubledAndOvertaken) {
  MemoryWorld world({.faults = {.statement_delay_s = 5, .lose = 0.3, .duplicate = 0.3}});
  const auto here = world.connect("here");
  std::vector<int> received;
  const auto subscription = here->subscribe(
      "", "", [&](const std::string&, const Bytes& bytes) { received.push_back(bytes.front()); });
  for (uint8_t i = 0; i < 100; ++i) here->publish("topic", {i});
  world.network.run();
  EXPECT_FALSE(std::ranges::is_sorted(received));
  std::ranges::sort(received);
  EXPECT_NE(std::ranges::adjacent_find(received), received.end());
  const auto doubled = std::ranges::unique(received);
  received.erase(doubled.begin(), doubled.end());
  EXPECT_LT(received.size(), 85u);
  EXPECT_GT(received.size(), 55u);
}

// A reader that was away reads what it missed, once and in order.
TEST(MemoryNetwork, ReadersMissNothingOverLostConnections) {
  MemoryWorld world({.faults = {.disconnect = 0.1, .reconnect_s = 0.3}});
  const auto writer = world.connect("writer");
  const auto reader = world.connect("reader");
  std::vector<uint64_t> read;
  const auto reading =
      reader->read("ledger", 1, [&](uint64_t sequence, const Bytes&) { read.push_back(sequence); });
  uint64_t last = 0;
  for (int tries = 0; tries < 1000 && last < 50; ++tries) {
    const Result<uint64_t> appended = append(world, *writer, "ledger", last, "x");
    // No answer, or one that an earlier try went through: both mean that it may be there.
    if (appended || appended.error().kind == FailureKind::kStaleRound) ++last;
  }
  world.network.run();
  std::vector<uint64_t> expected(50);
  for (uint64_t i = 0; i < 50; ++i) expected[i] = i + 1;
  EXPECT_EQ(read, expected);
}

}  // namespace
}  // namespace thinwire::transport
