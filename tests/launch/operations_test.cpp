// method::operations_of says what strategies do: the same operations, of no more bytes, opened
// after the same step and waited for before the same one, by every method and overlap.
#include "thinwire/method/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "tests/launch/method_variants.h"
#include "tests/launch/strategy_member.h"
#include "tests/tiny_run.h"
#include "tests/transport/passing_communicator.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/within.h"
#include "thinwire/train/round_source.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {
namespace {

using method::Collective;
using Members = std::vector<int>;  // ids in the run

struct Name {
  Members group;
  Collective collective;
  uint64_t round;
  uint32_t fragment;
  auto operator<=>(const Name&) const = default;
};

struct Course {
  uint64_t bytes = 0;
  int64_t opened = 0;
  int64_t due = 0;
};

using Courses = std::map<Name, Course>;

// What the members' communicators see.
class Recorder {
 public:
  int64_t step = 0;  // present one of all members

  void opened(const Name& name, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    Course& course = courses_[name];
    course.opened = step;
    course.bytes = std::max(course.bytes, bytes);
  }
  void waited_for(const Name& name) {
    const std::lock_guard lock(mutex_);
    courses_[name].due = step + 1;
  }
  const Courses& courses() const { return courses_; }

 private:
  std::mutex mutex_;
  Courses courses_;
};

class RecordedCommunicator final : public transport::PassingCommunicator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> to, Members group, Recorder& recorder)
      : transport::PassingCommunicator(std::move(to)),
        group_(std::move(group)),
        recorder_(recorder) {}

  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    open(Collective::kGather, key, contributes(from) ? payload.size() : 0);
    transport::PassingCommunicator::start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    if (size() > 1) recorder_.waited_for(name(Collective::kGather, key));
    return transport::PassingCommunicator::wait_all_gather(key, timeout_s);
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    open(Collective::kReduce, key, wire_bytes(codec.type, values.size()));
    transport::PassingCommunicator::start_all_reduce(key, values, codec, from);
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    if (size() > 1) recorder_.waited_for(name(Collective::kReduce, key));
    return transport::PassingCommunicator::wait_all_reduce(key, out, timeout_s);
  }
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    Members ids;
    for (const int member : members) ids.push_back(group_[static_cast<size_t>(member)]);
    return std::make_unique<RecordedCommunicator>(transport::PassingCommunicator::split(members),
                                                  std::move(ids), recorder_);
  }

 private:
  Name name(Collective collective, const transport::Key& key) const {
    return {group_, collective, key.round, key.fragment};
  }
  void open(Collective collective, const transport::Key& key, uint64_t bytes) {
    if (size() > 1) recorder_.opened(name(collective, key), bytes);
  }

  Members group_;
  Recorder& recorder_;
};

Members members_from(int first, int count) {
  Members ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// The groups that operations of a kind are between.
std::vector<Members> groups_of(method::Group group, const config::Recipe& recipe, int members) {
  const method::Clusters clusters = method::clusters_of(recipe.sync, members);
  Members leaders;
  std::vector<Members> each;
  for (int cluster = 0; cluster < clusters.count; ++cluster) {
    leaders.push_back(clusters.first(cluster));
    each.push_back(members_from(clusters.first(cluster), clusters.size(cluster)));
  }
  if (group == method::Group::kCluster) return each;
  return {group == method::Group::kLeaders ? leaders : members_from(0, members)};
}

Courses predicted(const config::Recipe& recipe, std::span<const TensorSpec> tensors, int members) {
  Courses courses;
  const method::OperationsAfter operations_after = method::operations_of(recipe, tensors);
  for (int64_t step = 0; step < recipe.train.steps; ++step) {
    for (const method::Operation& one : operations_after(step)) {
      for (Members& group : groups_of(one.group, recipe, members)) {
        if (group.size() < 2) continue;
        courses[{std::move(group), one.collective, one.round, one.fragment}] = {one.bytes, step,
                                                                                one.due};
      }
    }
  }
  return courses;
}

Courses recorded(const config::Recipe& recipe, const tensor::Layout& layout, int members) {
  Recorder recorder;
  std::vector<std::unique_ptr<StrategyMember>> all;
  std::vector<std::unique_ptr<train::RoundSource>> rounds;
  for (auto& communicator : transport::make_local_communicators(members)) {
    all.push_back(std::make_unique<StrategyMember>(
        recipe, layout,
        std::make_unique<RecordedCommunicator>(std::move(communicator), members_from(0, members),
                                               recorder)));
    rounds.push_back(
        train::recipe_rounds(recipe, 1, all.back()->communicator(), all.back()->permits()));
    all.back()->begin([&rounds](int64_t step) { return rounds.front()->at(step); });
  }
  for (; recorder.step < recipe.train.steps; ++recorder.step) {
    const Round round = rounds.front()->at(recorder.step);
    for (size_t m = 0; m < all.size(); ++m) {
      const uint64_t rows = round.roster[m].rows.count;
      rounds[m]->computed(round, rows, static_cast<double>(rows * (m + 1)));
    }
    step_all(all, round);
    for (const auto& source : rounds) EXPECT_TRUE(source->completed(round));
  }
  return recorder.courses();
}

class Operations : public testing::TestWithParam<Variant> {};

TEST_P(Operations, AreWhatStrategiesStartAndWaitFor) {
  for (const int members : {2, 4}) {
    const config::Recipe recipe =
        variant_recipe(GetParam(), "nowhere", {"model.vocab=64"}, members);
    const tensor::Layout layout(method::tensors_of(recipe));
    const Courses expected = predicted(recipe, layout.specs(), members);
    const Courses seen = recorded(recipe, layout, members);
    EXPECT_EQ(seen.size(), expected.size());
    for (const auto& [name, course] : expected) {
      const auto found = seen.find(name);
      const std::string where =
          "round " + std::to_string(name.round) + " fragment " + std::to_string(name.fragment);
      ASSERT_NE(found, seen.end()) << where;
      EXPECT_EQ(found->second.opened, course.opened) << where;
      EXPECT_EQ(found->second.due, course.due) << where;
      if (name.collective == Collective::kReduce) {
        EXPECT_EQ(found->second.bytes, course.bytes) << where;
      } else {
        EXPECT_LE(found->second.bytes, course.bytes) << where;
        EXPECT_GT(found->second.bytes, 0u) << where;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Operations, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

TEST(OperationsOfARun, HaveTheLossesThatPatienceNeeds) {
  const config::Recipe recipe =
      tiny_recipe("nowhere", {"model.vocab=64", "eval.patience=2", "eval.every=5",
                              "eval.watch=validation", "sync.method=diloco"});
  const auto tensors = method::tensors_of(recipe);
  for (int64_t step = 0; step < 12; ++step) {
    const auto all = method::operations_of(recipe, tensors)(step);
    const bool evaluates = step == 4 || step == 9 || step == 11;
    EXPECT_EQ(std::ranges::count(all, method::kLossesFragment, &method::Operation::fragment),
              evaluates ? 1 : 0)
        << step;
  }
}

}  // namespace
}  // namespace thinwire::launch
