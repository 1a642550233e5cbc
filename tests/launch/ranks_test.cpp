#include "thinwire/launch/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "tests/transport/frames.h"
#include "thinwire/base/error.h"

namespace thinwire::launch {
namespace {

constexpr double kPatience = 30;  // seconds; only a hang takes that long

// Ranks of one worker each, all in this process.
class Rank final : public transport::MpiJob {
 public:
  Rank(transport::FrameNetwork& network, int rank, int ranks)
      : network_(network), rank_(rank), ranks_(ranks) {}
  int rank() const override { return rank_; }
  int size() const override { return ranks_; }
  int first_member(int rank) const override { return rank; }
  const std::shared_ptr<transport::FrameHub>& hub(int member) const override {
    return network_.hub(member);
  }

 private:
  transport::FrameNetwork& network_;
  int rank_;
  int ranks_;
};

// Records what it gets; checkpoints of worker 1 wait for `released`.
class SlowSink final : public train::RunSink {
 public:
  void add_step(int64_t step, int worker, const train::StepPart&) override {
    got('s', step, worker);
  }
  void add_evaluation(int64_t step, const std::string&, int worker,
                      const train::EvalPart&) override {
    got('e', step, worker);
  }
  void add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) override {
    if (worker == 1) {
      writing.count_down();
      released.wait();
      const NamedValues& values = state.local.at(0);
      kept.assign(values.values.begin(), values.values.end());
    }
    got('c', step, worker);
  }
  void show_evaluation(int64_t, const std::string&, double) override {}
  bool stops_before(int64_t) override { return false; }
  bool checkpoint_due(int64_t) override { return false; }
  bool checkpoint_wanted() const override { return true; }
  int64_t checkpoint_written() const override { return written; }

  std::vector<std::string> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }

  std::latch writing{1};
  std::latch released{1};
  std::vector<float> kept;
  std::atomic<int64_t> written = -1;

 private:
  void got(char what, int64_t step, int worker) {
    const std::lock_guard lock(mutex_);
    events_.push_back(what + std::to_string(step) + " of " + std::to_string(worker));
  }

  std::mutex mutex_;
  std::vector<std::string> events_;
};

class TwoRanks : public testing::Test {
 protected:
  // Stops the network before the ranks are destroyed.
  void TearDown() override { network_.reset(); }

  std::unique_ptr<transport::FrameNetwork> network_ = std::make_unique<transport::FrameNetwork>(2);
  std::atomic<bool> stop_ = false;
  Ranks leader_{2, std::make_unique<Rank>(*network_, 0, 2), nullptr, events::print_message};
  Ranks other_{2, std::make_unique<Rank>(*network_, 1, 2), &stop_, events::print_message};
  SlowSink folder_;
  std::vector<float> values_ = {1, 2, 3};
  checkpoint::WorkerState state_{nullptr, {}, {{"adamw.m", values_}}, {}};

  // Both workers exchange a payload.
  void exchange(uint64_t round) {
    const auto first = leader_.make_communicators();
    const auto second = other_.make_communicators();
    const transport::Key key{.run = 1, .epoch = 0, .round = round, .fragment = 0};
    first[0]->start_all_gather(key, Bytes(4));
    second[0]->start_all_gather(key, Bytes(4));
    for (const auto* communicators : {&first, &second}) {
      const auto list = (*communicators)[0]->wait_all_gather(key, kPatience);
      ASSERT_TRUE(list.has_value()) << list.error().message;
      EXPECT_EQ(list->size(), 2u);
    }
  }
};

TEST_F(TwoRanks, FramesMoveAndARunCanStopWhileACheckpointIsWritten) {
  const auto sink = leader_.leader_sink(folder_);
  const auto remote = other_.remote_sink();
  remote->add_step(1, 1, train::StepPart());
  remote->add_checkpoint(1, 1, state_);
  folder_.writing.wait();
  exchange(0);
  stop_ = true;
  const auto train = [](train::RunSink& at) {
    for (int64_t step = 0; !at.stops_before(step); ++step) std::this_thread::yield();
  };
  std::thread stopping([&] { train(*remote); });
  train(*sink);
  stopping.join();
  folder_.released.count_down();
  other_.all_handed_in();
  leader_.wait_for_parts();
  EXPECT_THAT(folder_.events(), testing::ElementsAre("s1 of 1", "c1 of 1"));
  EXPECT_EQ(folder_.kept, values_);
}

TEST_F(TwoRanks, AllWriteACheckpointByTimeBeforeTheSameStep) {
  const auto sink = leader_.leader_sink(folder_);
  const auto remote = other_.remote_sink();
  int64_t first = 0, second = 0;
  const auto train_until_due = [](train::RunSink& at, int64_t& step) {
    while (!at.checkpoint_due(step)) ++step;
  };
  for (int checkpoint = 0; checkpoint < 3; ++checkpoint) {
    std::thread other([&] { train_until_due(*remote, second); });
    train_until_due(*sink, first);
    other.join();
    ASSERT_EQ(first, second);
    folder_.written = first;
    ++first;
    ++second;
  }
}

// Keeps a slow disk from filling the memory of the rank that writes.
TEST_F(TwoRanks, ACheckpointWaitsForWhatCameBeforeTheLastOne) {
  const auto sink = leader_.leader_sink(folder_);
  other_.remote_sink()->add_checkpoint(1, 1, state_);
  folder_.writing.wait();
  sink->add_checkpoint(1, 0, state_);
  std::thread worker([&] { sink->add_checkpoint(2, 0, state_); });
  folder_.released.count_down();
  worker.join();
  EXPECT_THAT(folder_.events(), testing::ElementsAre("c1 of 0", "c1 of 1", "c2 of 0"));
}

TEST_F(TwoRanks, WhatTheFolderThrowsEndsTheRun) {
  const auto sink = leader_.leader_sink(folder_);
  folder_.released.count_down();
  other_.remote_sink()->add_checkpoint(1, 1, checkpoint::WorkerState());  // at(0) throws
  EXPECT_THROW(leader_.wait_for_parts(), Error);
  EXPECT_THROW(other_.await_broadcast(), Error);
}

TEST_F(TwoRanks, ADamagedNoteEndsTheRunWithAReason) {
  const auto sink = leader_.leader_sink(folder_);
  const auto reason = [&] {
    try {
      leader_.wait_for_parts();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  network_->hub(1)->note(0, Bytes{1, 2, 3});
  EXPECT_THAT(reason(), testing::HasSubstr("a damaged note came from the process of worker 1: a "
                                           "note of kind 1: it is truncated"));
}

TEST_F(TwoRanks, ARankSpeaksForItsOwnWorkersOnly) {
  const auto sink = leader_.leader_sink(folder_);
  other_.remote_sink()->add_step(1, 0, train::StepPart());
  EXPECT_THROW(leader_.wait_for_parts(), Error);
  EXPECT_TRUE(folder_.events().empty());
}

TEST_F(TwoRanks, ANoteThatGoesTheOtherWayEndsTheRun) {
  network_->hub(0)->note(1, encode_note(StopRequestNote()));
  EXPECT_THROW(other_.await_broadcast(), Error);
}

TEST_F(TwoRanks, TheLeaderTellsHowTheRunBegins) {
  StartNote start;
  start.checkpoint = "runs/a/checkpoints/step-00000005";
  leader_.broadcast(start);
  EXPECT_EQ(other_.await_broadcast().checkpoint, "runs/a/checkpoints/step-00000005");
}

}  // namespace
}  // namespace thinwire::launch
