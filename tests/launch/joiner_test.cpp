// What every method promises where members come, and where a commit leaves a contribution out. A
// joiner catches up by its strategy's own steps over past rounds, against a ledger, and enters at a
// round's start; members that were there are not asked for anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "tests/launch/ledger.h"
#include "tests/launch/method_variants.h"
#include "tests/launch/strategy_member.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/round_source.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {
namespace {

using Members = std::vector<std::unique_ptr<StrategyMember>>;

class JoinerContract : public testing::TestWithParam<Variant> {
 protected:
  static config::Recipe recipe(int members) {
    return variant_recipe(GetParam(), "nowhere", {"model.vocab=64"}, members);
  }
};

// Rounds of `members`, and from `entry` on of one more.
Round round_of(const config::Recipe& recipe, int members, int64_t entry, int64_t step) {
  if (step >= entry) {
    Round round = train::open_round(recipe, 1, members + 1, step);
    round.roster.back().since = static_cast<uint64_t>(entry);
    return round;
  }
  return train::open_round(recipe, 1, members, step);
}

// The first step of the round that follows `step`.
int64_t next_round(const config::Recipe& recipe, int64_t step) {
  const schedule::Rounds rounds = method::rounds_of(recipe);
  return rounds.first_step(step) + rounds.every;
}

// A run of two members, to which a third comes with a snapshot of `from` completed steps.
class JoinedRun {
 public:
  JoinedRun(const config::Recipe& recipe, int64_t from)
      : recipe_(recipe),
        layout_(method::tensors_of(recipe)),
        from_(from),
        entry_(next_round(recipe, from)),
        communicators_(transport::make_local_communicators(kMembers + 1)) {
    for (int m = 0; m < kMembers; ++m) {
      auto own = std::move(communicators_[static_cast<size_t>(m)]);
      if (m == 0) own = std::make_unique<WritingCommunicator>(std::move(own), ledger_);
      members_.push_back(std::make_unique<StrategyMember>(recipe_, layout_, std::move(own)));
      members_.back()->begin(round_at());
    }
  }

  // To the end; members agree after every synchronisation, the joiner from its first step on.
  void train() {
    for (int64_t step = 0; step < recipe_.train.steps; ++step) {
      if (step == from_) snapshot_ = members_.front()->snapshot();
      if (step == entry_) join();
      const bool synchronised = step_all(members_, round_at()(step));
      if (synchronised) expect_agreement(step + 1);
    }
    // Whoever would have entered after the run's end has followed it all the same.
    if (entry_ >= recipe_.train.steps) join();
  }

 private:
  static constexpr int kMembers = 2;

  StrategyMember::RoundAt round_at() const {
    return [this](int64_t step) { return round_of(recipe_, kMembers, entry_, step); };
  }

  void join() {
    auto own = std::make_unique<JoiningCommunicator>(std::move(communicators_.back()), ledger_);
    auto joiner = std::make_unique<StrategyMember>(recipe_, layout_, std::move(own));
    joiner->begin(snapshot_, from_, round_at());
    const int64_t end = std::min(entry_, recipe_.train.steps);
    for (int64_t step = from_; step < end; ++step) joiner->step(round_at()(step));
    EXPECT_EQ(joiner->communicator().traffic().sent, 0u) << "it follows";
    members_.push_back(std::move(joiner));
    expect_agreement(end);
  }

  void expect_agreement(int64_t completed) {
    const Snapshot first = members_.front()->snapshot();
    for (size_t m = 1; m < members_.size(); ++m) {
      EXPECT_TRUE(members_[m]->snapshot() == first)
          << "member " << m << " after step " << completed << ", snapshot of " << from_;
    }
  }

  const config::Recipe& recipe_;
  const tensor::Layout layout_;
  const int64_t from_;
  const int64_t entry_;
  Ledger ledger_;
  Snapshot snapshot_;
  std::vector<std::unique_ptr<transport::Communicator>> communicators_;
  Members members_;
};

TEST_P(JoinerContract, EndsWithTheBitsOfThoseThatWereThere) {
  const config::Recipe used = recipe(2);
  if (used.sync.clustered()) GTEST_SKIP() << "a cluster's workers are there from the start";
  for (const int64_t from : {0, 3, 7, 10}) JoinedRun(used, from).train();
}

// Commits leave out what member 1 contributes to some operations.
class LossyCommunicator final : public transport::PassingCommunicator {
 public:
  using Leaves = std::function<bool(const transport::Key& key)>;

  LossyCommunicator(std::unique_ptr<Communicator> to, Leaves leaves)
      : transport::PassingCommunicator(std::move(to)), leaves_(std::move(leaves)) {}

  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    transport::PassingCommunicator::start_all_gather(key, std::move(payload), committed(key, from));
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    transport::PassingCommunicator::start_all_reduce(key, values, codec, committed(key, from));
  }
  Result<bool> left_out(const transport::Key& key, double) override { return lost_.contains(key); }

 private:
  static constexpr int kLost = 1;

  transport::Contributors committed(const transport::Key& key, transport::Contributors from) {
    if (from.size() < 2 || !leaves_(key) || std::erase(from, kLost) == 0) return from;
    if (rank() == kLost) lost_.insert(key);
    return from;
  }

  Leaves leaves_;
  std::set<transport::Key> lost_;
};

// The weights at the end; members agree after every synchronisation on the way.
Snapshot train_with_losses(const config::Recipe& recipe, const LossyCommunicator::Leaves& leaves) {
  const tensor::Layout layout(method::tensors_of(recipe));
  const auto members = static_cast<int>(recipe.train.workers);
  const auto round_at = [&](int64_t step) { return train::open_round(recipe, 1, members, step); };
  Members all;
  for (auto& communicator : transport::make_local_communicators(members)) {
    all.push_back(std::make_unique<StrategyMember>(
        recipe, layout, std::make_unique<LossyCommunicator>(std::move(communicator), leaves)));
    all.back()->begin(round_at);
  }
  for (int64_t step = 0; step < recipe.train.steps; ++step) {
    if (!step_all(all, round_at(step))) continue;
    const Snapshot first = all.front()->snapshot();
    for (const auto& member : all) {
      EXPECT_TRUE(member->snapshot() == first) << "after step " << step + 1;
    }
  }
  return all.front()->snapshot();
}

TEST_P(JoinerContract, AgreesWhereACommitLeavesAContributionOut) {
  const config::Recipe used = recipe(3);
  if (used.sync.clustered()) GTEST_SKIP() << "a cluster contributes as one";
  const Snapshot whole = train_with_losses(used, [](const auto&) { return false; });
  const auto some = [](const transport::Key& key) { return key.round % 3 != 1; };
  EXPECT_FALSE(train_with_losses(used, some) == whole);
}

INSTANTIATE_TEST_SUITE_P(Methods, JoinerContract, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
