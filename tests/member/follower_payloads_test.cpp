// What a follower does with its own payloads, with those of others and with their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/member/follower_case.h"
#include "tests/transport/codecs.h"
#include "thinwire/base/clock.h"

namespace thinwire::member {
namespace {

constexpr double kTimeoutSeconds = 60;

// Not only with the next report, which is hours away here.
TEST_F(FollowerCase, GivesTheStoreAgainSoonWhatItHadNoRoomFor) {
  follow_into_a_round();
  const Bytes payload = {1, 2, 3};
  network_.set_disk_bytes(0);
  follower_->offer(0, 0, payload, {});
  EXPECT_FALSE(is_stored(payload));
  network_.set_disk_bytes(std::numeric_limits<uint64_t>::max());
  const Stopwatch watch;
  while (!is_stored(payload) && watch.seconds() < kTimeoutSeconds) continue;
  EXPECT_TRUE(is_stored(payload));
}

// So that whoever reads and copies it is later.
TEST_F(FollowerCase, AnnouncesAPayloadBeforeItIsInTheStore) {
  std::vector<membership::Offer> announced;
  std::vector<membership::Offer> offered;
  const auto hear = [&](const std::string&, const Bytes& bytes) {
    const auto statement = membership::decode_statement(bytes, ledger_.founding.run, verify);
    ASSERT_TRUE(statement);
    if (const auto* one = std::get_if<membership::Announcement>(&statement->message)) {
      announced.push_back(one->offer);
    } else if (const auto* offer = std::get_if<membership::Offer>(&statement->message)) {
      offered.push_back(*offer);
    }
  };
  const auto announcements = store_->subscribe("", membership::kAnnouncementsTopic, hear);
  const auto offers = store_->subscribe("", membership::kMembersTopic, hear);
  follow_into_a_round();
  const Bytes payload = {1, 2, 3};
  network_.set_disk_bytes(0);
  follower_->offer(0, 0, payload, {});
  EXPECT_FALSE(is_stored(payload));
  ASSERT_FALSE(announced.empty());
  EXPECT_EQ(announced.front().payload, transport::blob_id(payload).name);
  EXPECT_EQ(announced.front().round, 0u);
  EXPECT_TRUE(offered.empty());
  follower_.reset();
}

// Rounds 0 and 1, each with an operation to which members 0 and 1 contribute; the worker of member
// 0 has begun round 0.
class ClosedRound : public FollowerCase {
 protected:
  void SetUp() override {
    const Result<StartState> start = follow_from_initial_weights();
    append(ledger_.admit(1));
    append(ledger_.add({PhaseChange{0, Phase::kActive, {}}, PhaseChange{1, Phase::kActive, {}}}, {},
                       {opening(0), opening(1)}));
    ASSERT_TRUE(start && follower_->begin(*start, 0));
    ASSERT_TRUE(follower_->opening(0));
    other_->put(std::make_shared<const Bytes>(payload_), transport::Priority::kRound,
                [](const Result<void>&) {});
    network_.run();
  }
  static membership::Opening opening(uint64_t round) {
    membership::Opening opening;
    opening.round = round;
    opening.first_step = round;
    opening.steps = {{0.5f, 0.5f}};
    opening.operations = {{0, 100}};
    opening.roster = {{0, {0, 4}, 0}, {1, {4, 4}, 0}};
    return opening;
  }
  Commit close(uint64_t round) {
    Commit commit;
    commit.operation = {ledger_.founding.run, 0, round, 0};
    const transport::BlobId id = transport::blob_id(payload_);
    commit.contributions = {{1, round, id.name, id.bytes, 4}};
    commit.scale = commit_scale(commit.contributions);
    append(ledger_.add({}, membership::Closing{round, {commit}, {0}}));
    return commit;
  }
  void drop_payload() {
    store_->drop(transport::blob_id(payload_).name, other_->self(), [](const Result<void>&) {});
    network_.run();
  }

  const std::unique_ptr<transport::Courier> other_ =
      network_.connect(participant_name(member_key(1)));
  const Bytes payload_ = {1, 2, 3};
};

// While the worker computes: when it waits, its next payload is on its way up.
TEST_F(ClosedRound, IsFetchedBeforeTheWorkerWaitsForIt) {
  const Commit commit = close(0);
  drop_payload();
  stop_ = true;  // does not wait for long
  const auto payloads = follower_->payloads(commit);
  ASSERT_TRUE(payloads) << payloads.error().message;
  EXPECT_EQ(*payloads->front(), payload_);
}

// Then it does not wait for what cannot come.
TEST_F(ClosedRound, IsNotAwaitedForLongOnceTheServerIsGoneAndTheMemberIsToldToStop) {
  close(0);
  const Commit commit = close(1);
  drop_payload();
  follower_->end();  // forgets what was fetched for round 0
  network_.disconnect(courier_->self());
  std::thread worker([&] { EXPECT_FALSE(follower_->payloads(commit)); });
  {
    std::unique_lock lock(said_mutex_);
    EXPECT_TRUE(active_.wait_for(lock, std::chrono::duration<double>(kTimeoutSeconds), [&] {
      return std::ranges::find(activities_, "waits until the run can be reached again") !=
             activities_.end();
    }));
  }
  const Stopwatch stopping;
  stop_ = true;
  worker.join();
  EXPECT_LT(stopping.seconds(), kMaxLingerSeconds);
}

TEST_F(ClosedRound, IsNotFetchedBeforeTheWorkerHasBegunIt) {
  close(0);
  const Commit commit = close(1);
  drop_payload();
  follower_->end();  // forgets what was fetched for round 0
  stop_ = true;
  EXPECT_FALSE(follower_->payloads(commit));
}

// What a member has offered in round 0, which is closed.
class OfferedPayload : public FollowerCase {
 protected:
  void SetUp() override {
    follow(0);
    append(ledger_.found());
    for (const int member : {0, 1}) append(ledger_.admit(member));
    append(ledger_.open(0, 0));
    follower_->offer(0, 0, payload_, {});
    network_.run();
    EXPECT_TRUE(is_stored(payload_));
    append(ledger_.close(0));
  }

  static constexpr uint64_t kClosing = 5;  // its record
  const Bytes payload_ = {1, 2, 3};
};

TEST_F(OfferedPayload, IsPutBackForAMemberThatLacksIt) {
  lose(payload_, 150);
  EXPECT_FALSE(is_stored(payload_)) << "for somebody who is no member";
  lose(payload_, 101);
  EXPECT_TRUE(is_stored(payload_));
}

TEST_F(OfferedPayload, IsKeptUntilTheOlderSnapshotCoversItsRound) {
  append(ledger_.add({membership::Snapshot{1, kClosing, {}, 10}}));
  append(ledger_.add({membership::Snapshot{1, kClosing + 1, {}, 10}}));
  lose(payload_, 101);
  EXPECT_FALSE(is_stored(payload_));
}

constexpr uint8_t kCoordinator = 1;

// Round 0, whose commit lists three contributions, and a coordinator that says what their sum is.
class FollowerOfSums : public FollowerCase {
 protected:
  FollowerOfSums() {
    sums_ = sync::SumRule{config::Sums::kCoordinator, &transport::kF32};
    for (const int member : {0, 1, 2}) {
      commit_.contributions.push_back({member, 0, sha256(as_bytes(std::to_string(member))), 16, 2});
    }
    commit_.operation.run = ledger_.founding.run;
    commit_.scale = commit_scale(commit_.contributions);
  }
  // The worker has begun the round.
  void open() {
    const Result<StartState> start = follow_from_initial_weights();
    ASSERT_TRUE(start);
    for (const int member : {1, 2}) append(ledger_.admit(member));
    ASSERT_TRUE(follower_->begin(*start, 0));
    membership::Opening opening = plan_.round(0);
    opening.operations = {{0, 16}};
    opening.roster = {{0, {0, 2}, 0}, {1, {2, 2}, 0}, {2, {4, 2}, 0}};
    append(ledger_.add({PhaseChange{0, Phase::kActive, {}}, PhaseChange{1, Phase::kActive, {}},
                        PhaseChange{2, Phase::kActive, {}}},
                       {}, {opening}));
    ASSERT_TRUE(follower_->opening(0));
  }
  void close() {
    open();
    close_opened();
  }
  void close_opened() {
    append(ledger_.add({}, membership::Closing{0, {commit_}, {}}));
    ASSERT_TRUE(follower_->commit(0, 0));
  }
  // All contribute the same, which one of them has stored.
  void store_contributions() {
    const transport::BlobId id =
        other_->put(std::make_shared<const Bytes>(sum_), transport::Priority::kRound,
                    [](const Result<void>&) {});
    network_.run();
    for (Contribution& one : commit_.contributions) one.payload = id.name;
  }
  // Once nobody has them any more.
  void expect_contributions() {
    store_->drop(transport::blob_id(sum_).name, other_->self(), [](const Result<void>&) {});
    network_.run();
    stop_ = true;  // does not wait for long
    const auto payloads = follower_->payloads(commit_);
    ASSERT_TRUE(payloads) << payloads.error().message;
    EXPECT_EQ(*payloads->front(), sum_);
  }
  // Who signs it, and what the sum was multiplied by.
  void say(uint8_t who, float factor) {
    const auto signer = signer_of(who);
    holder_ = network_.connect(participant_name(signer->key()));
    const transport::BlobId id =
        holder_->put(std::make_shared<const Bytes>(sum_), transport::Priority::kRound,
                     [](const Result<void>&) {});
    network_.run();
    say(*signer, factor, id);
  }
  void say_none() {
    const auto signer = signer_of(kCoordinator);
    holder_ = network_.connect(participant_name(signer->key()));
    say(*signer, 1, {});
  }
  void say(const Signer& signer, float factor, const transport::BlobId& id) {
    const membership::Sum sum{
        0, 0, sync::digest_of(commit_.contributions), WireType::kF32, factor, id.name, id.bytes};
    holder_->publish(
        membership::kCoordinatorsTopic,
        membership::encode_statement({ledger_.founding.run, signer.key(), ++said_, sum}, signer));
    network_.run();
  }
  // What the follower gives as the sum; empty: the worker has to form it.
  Bytes given(float factor) {
    const auto sum = follower_->sum(commit_, factor);
    EXPECT_TRUE(sum);
    return sum && *sum ? **sum : Bytes();
  }

  Commit commit_;
  const Bytes sum_ = Bytes(16, 7);
  std::unique_ptr<transport::Courier> holder_;
  const std::unique_ptr<transport::Courier> other_ =
      network_.connect(participant_name(member_key(1)));
};

TEST_F(FollowerOfSums, GivesTheSumThatTheCoordinatorFormed) {
  close();
  say(kCoordinator, 1.5f);
  EXPECT_EQ(given(1.5f), sum_);
}

TEST_F(FollowerOfSums, DoesNotGiveOneThatWasScaledOtherwise) {
  close();
  say(kCoordinator, 1.5f);
  EXPECT_EQ(given(1), Bytes());
}

TEST_F(FollowerOfSums, WaitsForNoneThatTheCoordinatorSaysItDoesNotForm) {
  timeout_s_ = 2000;
  close();
  say_none();
  EXPECT_EQ(given(1), Bytes());
}

TEST_F(FollowerOfSums, FetchesContributionsEarlyWhoseSumIsLeftToMembers) {
  store_contributions();
  close();
  say_none();
  expect_contributions();
}

TEST_F(FollowerOfSums, FetchesThemEarlyIfThatWasSaidBeforeTheRoundWasClosed) {
  store_contributions();
  open();
  say_none();
  close_opened();
  expect_contributions();
}

TEST_F(FollowerOfSums, WaitsOnlySoLongForIt) {
  timeout_s_ = 2;
  close();
  EXPECT_EQ(given(1), Bytes());
}

TEST_F(FollowerOfSums, FetchesNoneThatComesTooLate) {
  timeout_s_ = 2;
  close();
  EXPECT_EQ(given(1), Bytes());
  say(kCoordinator, 1);
  EXPECT_EQ(given(1), Bytes());
}

TEST_F(FollowerOfSums, BelievesNobodyButACoordinator) {
  timeout_s_ = 2;
  close();
  say(102, 1);
  EXPECT_EQ(given(1), Bytes());
}

TEST_F(FollowerOfSums, WaitsForNoneThatTheCoordinatorDoesNotForm) {
  close();
  commit_.contributions.pop_back();
  EXPECT_EQ(given(1), Bytes()) << "of two";
}

TEST_F(FollowerOfSums, WaitsForNoneOfARoundThatWasClosedBeforeItCame) {
  close();
  commit_.operation.round = 1;
  EXPECT_EQ(given(1), Bytes());
}

}  // namespace
}  // namespace thinwire::member
