// Secure sums: the mean of who is in the sum, whoever else goes when; and what is sent looks the
// same whatever it hides.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/transport/passing_communicator.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/operations.h"
#include "thinwire/sync/private_sum.h"

namespace thinwire::sync {
namespace {

constexpr uint32_t kSumFragment = 0;
constexpr size_t kValues = 5000;  // more than a piece of a key stream

// Of members, the operation from which on they are gone.
using Going = std::map<int, uint32_t>;
constexpr std::array kOrder = {method::kMaskKeysFragment, method::kMaskSharesFragment, kSumFragment,
                               method::kRevealsFragment};

bool is_gone(const Going& going, int member, uint32_t fragment) {
  const auto found = going.find(member);
  return found != going.end() &&
         std::ranges::find(kOrder, fragment) >= std::ranges::find(kOrder, found->second);
}

struct Case {
  Going going = {};
  std::function<void(int member, uint32_t fragment, Bytes& payload)> tamper = {};
  std::function<void(int member, std::span<const float> words)> see = {};  // what is summed
};

// Commits without the members that are gone, as a coordinator does.
class Lossy final : public transport::PassingCommunicator {
 public:
  Lossy(std::unique_ptr<Communicator> to, const Case& of)
      : PassingCommunicator(std::move(to)), case_(of) {}

  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    if (case_.tamper) case_.tamper(rank(), key.fragment, payload);
    PassingCommunicator::start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    auto all = PassingCommunicator::wait_all_gather(key, timeout_s);
    if (all) {
      std::erase_if(*all, [&](const auto& one) { return gone(one.member, key); });
    }
    return all;
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    counted_ = from;
    std::erase_if(counted_, [&](int member) { return gone(member, key); });
    if (case_.see && contributes(from)) case_.see(rank(), values);
    PassingCommunicator::start_all_reduce(key, values, codec, counted_);
  }
  Result<std::optional<transport::Contributors>> counted(const transport::Key&, double) override {
    return counted_;
  }

 private:
  bool gone(int member, const transport::Key& key) const {
    return is_gone(case_.going, member, key.fragment);
  }

  const Case& case_;
  transport::Contributors counted_;
};

float value_of(int member, size_t i) {
  Rng rng(static_cast<uint64_t>(member) + 7, i);
  return static_cast<float>(rng.normal());
}

struct Outcome {
  std::vector<Result<bool>> known;
  std::vector<std::vector<float>> values;
};

// Members with these weights, of which each contributes its weight times value_of.
Outcome form(const std::vector<float>& weights, const Case& of) {
  const auto members = static_cast<int>(weights.size());
  auto communicators = transport::make_local_communicators(members);
  MemberShares shares;
  for (int member = 0; member < members; ++member) shares.from.push_back(member);
  shares.weights = weights;
  Outcome outcome{std::vector<Result<bool>>(weights.size()),
                  std::vector(weights.size(), std::vector<float>(kValues))};
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    const auto at = static_cast<size_t>(member);
    auto lossy = std::make_shared<Lossy>(std::move(communicators[at]), of);
    threads.emplace_back([&, at, member, lossy] {
      std::vector<float>& values = outcome.values[at];
      for (size_t i = 0; i < kValues; ++i) values[i] = weights[at] * value_of(member, i);
      ThreadPool pool(2);
      SecureSum sum(*lossy, pool, 60);
      outcome.known[at] =
          sum.form({.run = 1, .epoch = 2, .round = 3, .fragment = kSumFragment}, values, shares);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

// All have the weighted mean of these members, with the same bits.
void expect_mean(const Outcome& outcome, const std::vector<float>& weights,
                 const std::vector<int>& members) {
  double all = 0;
  for (const int member : members) all += weights[static_cast<size_t>(member)];
  for (size_t at = 0; at < outcome.values.size(); ++at) {
    ASSERT_TRUE(outcome.known[at]);
    EXPECT_TRUE(*outcome.known[at]);
    EXPECT_EQ(outcome.values[at], outcome.values[0]);
  }
  for (size_t i = 0; i < kValues; ++i) {
    double mean = 0;
    for (const int member : members) {
      mean += weights[static_cast<size_t>(member)] * value_of(member, i) / all;
    }
    ASSERT_NEAR(outcome.values[0][i], mean, 3e-7) << i;
  }
}

const std::vector<float> kFour = {0.25f, 0.25f, 0.25f, 0.25f};

TEST(SecureSumCase, IsTheMeanOfAll) {
  expect_mean(form(kFour, {}), kFour, {0, 1, 2, 3});
  const std::vector<float> uneven = {0.5f, 0.125f, 0.375f};
  expect_mean(form(uneven, {}), uneven, {0, 1, 2});
}

TEST(SecureSumCase, NobodyIsSummedAlone) {
  const Outcome outcome = form({1.0f}, {});
  ASSERT_TRUE(outcome.known[0]);
  EXPECT_FALSE(*outcome.known[0]);
  EXPECT_EQ(outcome.values[0], std::vector<float>(kValues));
}

TEST(SecureSumCase, IsTheMeanOfThoseWhoAreInIt) {
  expect_mean(form(kFour, {.going = {{1, method::kMaskKeysFragment}}}), kFour, {0, 2, 3});
  expect_mean(form(kFour, {.going = {{0, method::kMaskSharesFragment}}}), kFour, {1, 2, 3});
  expect_mean(form(kFour, {.going = {{2, kSumFragment}}}), kFour, {0, 1, 3});
  expect_mean(form(kFour, {.going = {{3, method::kRevealsFragment}}}), kFour, {0, 1, 2, 3});
  const std::vector<float> nine(9, 1.0f / 9);
  expect_mean(form(nine, {.going = {{0, method::kMaskKeysFragment},
                                    {6, method::kMaskSharesFragment},
                                    {3, kSumFragment},
                                    {4, method::kRevealsFragment}}}),
              nine, {1, 2, 4, 5, 7, 8});
}

// Then nobody learns a sum of so few, and no mask is taken from it.
TEST(SecureSumCase, IsLostOnceTooManyHaveGone) {
  for (const uint32_t when : {kSumFragment, method::kRevealsFragment}) {
    const Outcome outcome = form(kFour, {.going = {{0, when}, {1, when}}});
    for (size_t at = 0; at < kFour.size(); ++at) {
      ASSERT_TRUE(outcome.known[at]);
      EXPECT_FALSE(*outcome.known[at]);
      EXPECT_EQ(outcome.values[at], std::vector<float>(kValues));
    }
  }
}

TEST(SecureSumCase, NobodyRevealsAnythingOfASumOfTooFew) {
  std::mutex mutex;
  size_t revealed = 0;
  const Case of{.going = {{0, kSumFragment}, {1, kSumFragment}},
                .tamper = [&](int, uint32_t fragment, Bytes& payload) {
                  const std::scoped_lock lock(mutex);
                  if (fragment == method::kRevealsFragment) revealed += payload.size();
                }};
  form(kFour, of);
  EXPECT_EQ(revealed, 0u);
}

// Of each member, one of its two secrets.
TEST(SecureSumCase, OneShareIsRevealedOfEachMember) {
  std::mutex mutex;
  const Case of{.going = {{2, kSumFragment}},
                .tamper = [&](int member, uint32_t fragment, Bytes& payload) {
                  const std::scoped_lock lock(mutex);
                  if (fragment != method::kRevealsFragment) return;
                  EXPECT_EQ(payload.size(), kFour.size() * method::kRevealBytes) << member;
                }};
  form(kFour, of);
}

TEST(SecureSumCase, SurvivesAWrongShare) {
  for (const int wrong : {0, 1, 2, 3}) {
    const Case of{.tamper = [wrong](int member, uint32_t fragment, Bytes& payload) {
      if (member == wrong && fragment == method::kRevealsFragment) payload[5] ^= 1;
    }};
    expect_mean(form(kFour, of), kFour, {0, 1, 2, 3});
  }
}

TEST(SecureSumCase, IsLostRatherThanWrong) {
  const Case of{.tamper = [](int member, uint32_t fragment, Bytes& payload) {
    if (member != 3 && fragment == method::kRevealsFragment) payload[5] ^= 1;
  }};
  const Outcome outcome = form(kFour, of);
  for (const auto& known : outcome.known) {
    ASSERT_TRUE(known);
    EXPECT_FALSE(*known);
  }
  EXPECT_EQ(outcome.values[0], std::vector<float>(kValues));
}

// A payload that is no payload: its member is as good as gone.
TEST(SecureSumCase, IgnoresWhatIsNone) {
  const auto cut = [](uint32_t which) {
    return Case{.tamper = [which](int member, uint32_t fragment, Bytes& payload) {
      if (member == 1 && fragment == which) payload.pop_back();
    }};
  };
  expect_mean(form(kFour, cut(method::kMaskKeysFragment)), kFour, {0, 2, 3});
  expect_mean(form(kFour, cut(method::kMaskSharesFragment)), kFour, {0, 2, 3});
  expect_mean(form(kFour, cut(method::kRevealsFragment)), kFour, {0, 1, 2, 3});
}

// What was committed for it are other keys than its own, such as those of a process before: it
// could not take away what it would hide with.
TEST(SecureSumCase, WhoHasOtherKeysContributesNothing) {
  for (const size_t byte : {0, 32, 64}) {  // of each of the keys, and of the hash
    const Case of{.tamper = [byte](int member, uint32_t fragment, Bytes& payload) {
      if (member == 1 && fragment == method::kMaskKeysFragment) payload[byte] ^= 2;
    }};
    expect_mean(form(kFour, of), kFour, {0, 2, 3});
  }
}

TEST(SecureSumCase, AKeyThatIsNoneEndsNobodyElse) {
  const Case of{.tamper = [](int member, uint32_t fragment, Bytes& payload) {
    if (member == 1 && fragment == method::kMaskKeysFragment) std::fill_n(payload.begin(), 32, 0);
  }};
  expect_mean(form(kFour, of), kFour, {0, 2, 3});
}

TEST(SecureSumCase, LargeValuesAreLimited) {
  auto communicators = transport::make_local_communicators(2);
  std::vector<std::vector<float>> values = {{30, -30, 1}, {50, -50, 1}};
  std::vector<std::thread> threads;
  for (const size_t at : {0, 1}) {
    threads.emplace_back([&, at] {
      ThreadPool pool(1);
      SecureSum sum(*communicators[at], pool, 60);
      EXPECT_TRUE(sum.form({}, values[at], {{0, 1}, {0.5f, 0.5f}}).value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values[0], (std::vector<float>{16, -16, 2}));
  EXPECT_EQ(values[1], values[0]);
}

TEST(SecureSumCase, ValuesThatAreNotFiniteAreRefused) {
  auto communicators = transport::make_local_communicators(1);
  ThreadPool threads(1);
  SecureSum sum(*communicators[0], threads, 60);
  std::vector<float> values = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW((void)sum.form({}, values, {{0}, {1.0f}}), Error);
}

// --- what a coordinator sees that keeps all it receives

// Chi-square of the bytes of words, over 256 values: 255 +- 22.6 if all are as frequent.
double chi_square(std::span<const float> words) {
  std::array<double, 256> counts{};
  for (const uint8_t byte : as_bytes(words)) ++counts[byte];
  const double expected = static_cast<double>(words.size_bytes()) / 256;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Of words as integers.
double correlation(std::span<const float> one, std::span<const float> other) {
  double product = 0, first = 0, second = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    const double a = std::bit_cast<int32_t>(one[i]), b = std::bit_cast<int32_t>(other[i]);
    product += a * b;
    first += a * a;
    second += b * b;
  }
  return product / std::sqrt(first * second);
}

using Seen = std::map<int, std::vector<float>>;

Seen see(const std::vector<float>& weights, const Going& going = {}) {
  std::mutex mutex;
  Seen seen;
  form(weights, {.going = going, .see = [&](int member, std::span<const float> words) {
                   const std::scoped_lock lock(mutex);
                   seen[member].assign(words.begin(), words.end());
                 }});
  return seen;
}

// Whoever contributes, and however much, what is sent has the distribution of random words, and
// tells nothing of what it hides: neither its size nor its sign, nor that it is the same again.
TEST(SecureSumCase, WhatIsSentLooksRandom) {
  constexpr double kMostChi = 255 + 6 * 22.6;
  constexpr double kMostCorrelation = 6 / 70.7;  // six deviations, with kValues words
  // The second member contributes nearly nothing, the third 500 times as much.
  const std::vector<float> weights = {0.499f, 0.001f, 0.5f};
  const Seen once = see(weights), again = see(weights), without = see(weights, {{0, kSumFragment}});
  for (const Seen* const seen : {&once, &again, &without}) {
    ASSERT_EQ(seen->size(), 3u);
    for (const auto& [member, words] : *seen) {
      EXPECT_LT(chi_square(words), kMostChi) << member;
      std::vector<float> hidden(kValues);
      for (size_t i = 0; i < kValues; ++i) {
        hidden[i] = std::bit_cast<float>(static_cast<int32_t>(1e6f * value_of(member, i)));
      }
      EXPECT_LT(std::abs(correlation(words, hidden)), kMostCorrelation) << member;
      EXPECT_LT(std::abs(correlation(words, once.at((member + 1) % 3))), kMostCorrelation);
    }
  }
  for (const int member : {0, 1, 2}) {
    EXPECT_LT(std::abs(correlation(once.at(member), again.at(member))), kMostCorrelation);
  }
}

// Not even the sum of several is known without the secrets of all of them.
TEST(SecureSumCase, PartsOfTheSumLookRandomToo) {
  const Seen seen = see(kFour);
  std::vector<float> sum(kValues);
  for (const int member : {0, 1, 2, 3}) {
    for (size_t i = 0; i < kValues; ++i) {
      const auto word = std::bit_cast<uint32_t>(seen.at(member)[i]);
      sum[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(sum[i]) + word);
    }
    EXPECT_LT(chi_square(sum), 255 + 6 * 22.6) << member;
  }
}

}  // namespace
}  // namespace thinwire::sync
