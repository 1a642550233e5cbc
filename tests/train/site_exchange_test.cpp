// What the ranks of a site exchange, where it takes several parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/train/site.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {
namespace {

constexpr size_t kTwoAndAHalfParts = kSentAtOnce / sizeof(float) * 5 / 2 + 3;  // values

// Calls act(exchange) on each of so many ranks, after a message of rank 0.
void on_ranks(int count, const std::function<void(SiteExchange&)>& act) {
  const auto ranks = transport::make_local_communicators(count);
  std::vector<std::jthread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&] {
      SiteExchange exchange(*rank);
      exchange.rank() == kWorker ? exchange.tell({}) : void(exchange.hear());
      act(exchange);
    });
  }
}

std::vector<float> values_of(int rank) {
  std::vector<float> values(kTwoAndAHalfParts);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1000) + 0.1F * static_cast<float>(rank);
  }
  return values;
}

TEST(SiteExchangeTest, SumsPartByPartInTheOrderOfRanks) {
  const std::vector<float> first = values_of(0), third = values_of(2);
  std::vector<float> expected(kTwoAndAHalfParts);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = first[i] + third[i];
  on_ranks(3, [&](SiteExchange& exchange) {
    std::vector<float> values = values_of(exchange.rank());
    exchange.sum(values, {0, 2});
    EXPECT_EQ(values, expected) << exchange.rank();
  });
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
