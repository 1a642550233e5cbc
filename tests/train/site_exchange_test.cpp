// What the ranks of a site exchange, where it takes several parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/transport/passing_communicator.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/train/site.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {
namespace {

constexpr size_t kPart = kSentAtOnce / sizeof(float);    // values
constexpr size_t kTwoAndAHalfParts = kPart * 5 / 2 + 3;  // values

using Wrap = std::function<std::unique_ptr<transport::Communicator>(
    std::unique_ptr<transport::Communicator>)>;

// Calls act(exchange) on each of so many ranks, after a message of rank 0.
void on_ranks(int count, const std::function<void(SiteExchange&)>& act, const Wrap& wrap = {}) {
  auto ranks = transport::make_local_communicators(count);
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) {
    if (wrap) rank = wrap(std::move(rank));
    threads.emplace_back([&act, &rank] {
      SiteExchange exchange(*rank);
      exchange.rank() == kWorker ? exchange.tell({}) : void(exchange.hear());
      act(exchange);
    });
  }
}

// Rank 1 collects late what it has given its part of.
class Late final : public transport::PassingCommunicator {
 public:
  using PassingCommunicator::PassingCommunicator;

  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    if (rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return PassingCommunicator::wait_all_gather(key, timeout_s);
  }
  std::unique_ptr<transport::Communicator> split(std::span<const int> members) override {
    return std::make_unique<Late>(PassingCommunicator::split(members));
  }
};

// Sums no more than a part at a time.
class Frugal final : public transport::PassingCommunicator {
 public:
  using PassingCommunicator::PassingCommunicator;

  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    EXPECT_LE(values.size(), kPart);
    PassingCommunicator::start_all_reduce(key, values, codec, from);
  }
  std::unique_ptr<transport::Communicator> split(std::span<const int> members) override {
    return std::make_unique<Frugal>(PassingCommunicator::split(members));
  }
};

template <typename Wrapper>
std::unique_ptr<transport::Communicator> wrapped(std::unique_ptr<transport::Communicator> rank) {
  return std::make_unique<Wrapper>(std::move(rank));
}

std::vector<float> values_of(int rank) {
  std::vector<float> values(kTwoAndAHalfParts);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1000) + 0.1F * static_cast<float>(rank);
  }
  return values;
}

// Three lists whose sum is the last of them if they are added in this order, and else 0.
std::vector<std::vector<float>> to_be_added_in_order() {
  constexpr float kLarge = 1 << 27;  // to which 6 is too little to add
  std::vector<float> small(kTwoAndAHalfParts);
  for (size_t i = 0; i < small.size(); ++i) small[i] = static_cast<float>(i % 7);
  return {std::vector<float>(small.size(), kLarge), std::vector<float>(small.size(), -kLarge),
          small};
}

TEST(SiteExchangeTest, SumsPartByPartInTheOrderOfRanks) {
  std::vector<std::vector<float>> own = to_be_added_in_order();
  own.insert(own.begin() + 1, values_of(1));
  on_ranks(
      4,
      [&](SiteExchange& exchange) {
        std::vector<float> values = own[static_cast<size_t>(exchange.rank())];
        exchange.sum(values, {0, 2, 3});
        EXPECT_EQ(values, own[3]) << exchange.rank();
      },
      wrapped<Frugal>);
}

TEST(SiteExchangeTest, SumsThoseOfTheFirstRanksLikewise) {
  const std::vector<std::vector<float>> own = to_be_added_in_order();
  on_ranks(
      4,
      [&](SiteExchange& exchange) {
        if (exchange.rank() == 3) return;
        std::vector<float> values = own[static_cast<size_t>(exchange.rank())];
        exchange.sum_of_first(3, values);
        EXPECT_EQ(values, own[2]) << exchange.rank();
      },
      wrapped<Frugal>);
}

TEST(SiteExchangeTest, PassesBytesToOneRank) {
  const std::vector<float> sent = values_of(1);
  on_ranks(3, [&](SiteExchange& exchange) {
    std::vector<float> values(kTwoAndAHalfParts);
    if (exchange.rank() == 0) exchange.send(2, as_bytes(std::span<const float>(sent)));
    if (exchange.rank() != 2) return;
    exchange.receive(0, {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)});
    EXPECT_EQ(values, sent);
  });
}

// Two ranks are the same group as all of them.
TEST(SiteExchangeTest, OfTwoRanksGathersAfterBytesThatOneCollectsLate) {
  const tensor::Layout layout({{"first", {4}, TensorRole::kNorm}});
  const std::vector<uint8_t> sent = {1, 2, 3};
  on_ranks(
      2,
      [&](SiteExchange& exchange) {
        tensor::Arena values(layout);
        if (exchange.rank() == 0) {
          std::ranges::fill(values.tensor(0), 5.0F);
          exchange.send(1, sent);
        } else {
          std::vector<uint8_t> received(sent.size());
          EXPECT_NO_THROW(exchange.receive(0, received));
          EXPECT_EQ(received, sent);
        }
        exchange.gather(std::vector<int>{0}, values);
        EXPECT_EQ(std::ranges::count(values.tensor(0), 5.0F), 4) << exchange.rank();
      },
      wrapped<Late>);
}

TEST(SiteExchangeTest, GathersWhatEachRankHas) {
  const auto count = static_cast<int64_t>(kTwoAndAHalfParts);
  const tensor::Layout layout({{"small", {70}, TensorRole::kNorm},
                               {"large", {count}, TensorRole::kNorm},
                               {"other", {5, 3}, TensorRole::kMatrix}});
  const std::vector<int> ranks = {2, 1, 0};
  on_ranks(3, [&](SiteExchange& exchange) {
    tensor::Arena values(layout);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const float value = ranks[i] == exchange.rank() ? static_cast<float>(i + 1) : -1;
      std::ranges::fill(values.tensor(i), value);
    }
    exchange.gather(ranks, values);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto wanted = static_cast<float>(i + 1);
      EXPECT_EQ(std::ranges::count(values.tensor(i), wanted), std::ssize(values.tensor(i))) << i;
    }
  });
}

}  // namespace
}  // namespace thinwire::train
