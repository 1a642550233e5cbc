#include "thinwire/member/follower.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/member/written_ledger.h"
#include "tests/transport/codecs.h"
#include "thinwire/base/clock.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/record_parts.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/registry.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/courier/courier_memory.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {
namespace {

using membership::Phase;
using membership::PhaseChange;

constexpr double kTimeoutSeconds = 60;

// A follower, and a store whose ledger the test writes.
class FollowerCase : public testing::Test {
 protected:
  // For the member with this id.
  void follow(int member, const std::optional<Place>& checkpoint = {}) {
    signer_ = signer_of(static_cast<uint8_t>(100 + member));
    courier_ = network_.connect(transport::participant_name(signer_->key()));
    FollowerSettings settings{ledger_.founding, timeout_s_};
    settings.sums = sums_;
    settings.stop = &stop_;
    settings.checkpoint = checkpoint;
    follower_.emplace(*courier_, *signer_, plan_, std::move(settings));
  }
  void append(const Bytes& record) {
    store_->append(serve::kLedgerStream, last_++, record,
                   [](const Result<uint64_t>& done) { EXPECT_TRUE(done) << done.error().message; });
    network_.run();
  }
  // Member 0, which the coordinator tells to start from the initial weights.
  Result<StartState> follow_from_initial_weights() {
    follow(0);
    append(ledger_.found());
    append(ledger_.admit(0));
    append(ledger_.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
    return follower_->wait_start_state();
  }
  // The last record never reached the disk.
  void lose_last() {
    network_.lose_records(serve::kLedgerStream, 1);
    --last_;
  }
  bool is_stored(const Bytes& blob) {
    bool stored = false;
    store_->get(transport::blob_id(blob), {courier_->self()}, transport::Priority::kRound,
                [&](const Result<Bytes>& got) { stored = got.has_value(); });
    network_.run();
    return stored;
  }

  // The store has it no longer, and somebody says so.
  void lose(const Bytes& blob, uint8_t who) {
    const Sha256 name = transport::blob_id(blob).name;
    store_->drop(name, courier_->self(), [](const Result<void>&) {});
    network_.run();
    EXPECT_FALSE(is_stored(blob));
    const auto signer = signer_of(who);
    store_->publish(
        serve::kMembersTopic,
        membership::encode_statement(
            {ledger_.founding.run, signer->key(), ++said_, membership::Lacking{name}}, *signer));
    network_.run();
  }

  WrittenLedger ledger_;
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> store_ = network_.connect("store");
  const config::Recipe recipe_ =
      method::load_recipe("", std::vector<std::string>{"train.steps=4", "model.vocab=64"});
  const membership::RecipePlan plan_{recipe_, method::tensors_of(recipe_)};
  std::unique_ptr<Signer> signer_;
  std::unique_ptr<transport::Courier> courier_;
  std::atomic<bool> stop_ = false;
  double timeout_s_ = 1e6;  // reports are too rare to matter
  std::optional<serve::SumRule> sums_;
  std::optional<Follower> follower_;
  uint64_t last_ = 0;
  uint64_t said_ = 0;
};

TEST_F(FollowerCase, DoesNotBeginInAHistoryThatIsGone) {
  follow(1);
  append(ledger_.found());
  for (const int member : {0, 1}) append(ledger_.admit(member));
  append(ledger_.add({membership::Snapshot{0, 2, {}, 10}, PhaseChange{1, Phase::kCatchingUp, 2}}));
  const auto start = follower_->wait_start_state();
  ASSERT_TRUE(start);
  EXPECT_EQ(start->sequence, 2u);
  EXPECT_FALSE(follower_->is_obsolete(*start));

  WrittenLedger other;  // the same but for the last record
  other.found();
  for (const int member : {0, 1}) other.admit(member);
  lose_last();
  for (const int member : {2, 3}) append(other.admit(member));
  EXPECT_EQ(follower_->starts_over(),
            "the ledger's history changed: the coordinator " +
                transport::participant_name(ledger_.founding.coordinators.front()) +
                " signed another record 4");
  EXPECT_TRUE(follower_->is_obsolete(*start));
  EXPECT_FALSE(follower_->begin(*start, 1));
}

TEST_F(FollowerCase, LeavesASnapshotThatItIsNoLongerToBeginWith) {
  const Result<StartState> start = follow_from_initial_weights();
  ASSERT_TRUE(start);
  append(ledger_.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
  EXPECT_FALSE(follower_->is_obsolete(*start)) << "assigned the same twice";
  append(ledger_.admit(1));
  append(ledger_.add({membership::Snapshot{1, 2, {}, 10}, PhaseChange{0, Phase::kCatchingUp, 2}}));
  EXPECT_TRUE(follower_->is_obsolete(*start));
}

// A wait that is over at once ends well even if the member is to stop.
TEST_F(FollowerCase, BeginsOnlyOnceItHasReadTheWholeLedger) {
  append(ledger_.found());
  for (const int member : {0, 1}) append(ledger_.admit(member));
  append(ledger_.add({PhaseChange{1, Phase::kCatchingUp, 0}}));
  append(ledger_.add({membership::Snapshot{0, 2, {}, 10}, PhaseChange{1, Phase::kCatchingUp, 2}}));
  stop_ = true;
  follow(1);
  while (network_.step()) {
    const auto start = follower_->wait_start_state();
    if (!start) continue;
    EXPECT_EQ(start->sequence, 2u);
  }
  EXPECT_TRUE(follower_->wait_start_state());
}

TEST_F(FollowerCase, GoesOnFromItsCheckpointIfItIsOfThisHistory) {
  append(ledger_.found());
  append(ledger_.admit(0));
  append(ledger_.open(0, 0));
  const Bytes closing = ledger_.close(0);
  append(closing);
  const Bytes opening = ledger_.open(1, 0);
  append(opening);
  stop_ = true;
  const Place place{
      {4, membership::record_hash(closing)}, 1, 2, {5, membership::record_hash(opening)}};
  Place other = place;
  other.opened.hash = {};
  for (const Place& one : {other, place}) {
    courier_.reset();
    follow(0, one);
    network_.run();
    const auto start = follower_->wait_start_state();
    ASSERT_EQ(start.has_value(), one == place);
    if (!start) {
      follower_.reset();
      continue;
    }
    EXPECT_TRUE(start->checkpoint);
    EXPECT_TRUE(follower_->begin(*start, 2));
  }
}

// The first one is of a round whose digest nobody agrees on.
TEST_F(FollowerCase, MakesAnotherSnapshotWhenItIsAskedAgain) {
  const Result<StartState> start = follow_from_initial_weights();
  ASSERT_TRUE(start);
  ASSERT_TRUE(follower_->begin(*start, 0));
  append(ledger_.open(0, 0));
  append(ledger_.close(0));
  follower_->digest(1, 42);
  for (const uint64_t number : {1, 2}) {
    EXPECT_FALSE(follower_->wants_snapshot(1));
    const auto coordinator = signer_of(1);
    store_->publish(serve::kCoordinatorsTopic,
                    membership::encode_statement({ledger_.founding.run, coordinator->key(), number,
                                                  membership::AskSnapshot{0}},
                                                 *coordinator));
    network_.run();
    EXPECT_TRUE(follower_->wants_snapshot(1)) << "request " << number;
    follower_->store_snapshot(1, {1, 2, 3});
    network_.run();
  }
}

// Not only with the next report, which is hours away here.
// In statements, none of which is longer than a message.
TEST_F(FollowerCase, GivesBackALongRecordInParts) {
  follow(0);
  append(ledger_.found());
  append(ledger_.admit(0));
  membership::Opening opening;
  opening.steps.assign(100'000, {0.5f, 0.5f});
  opening.roster = {{0, {0, 4}, 0}};
  const Bytes record = ledger_.add({PhaseChange{0, Phase::kActive, {}}}, {}, {opening});
  for (const Bytes& message : membership::messages_of(record)) append(message);
  membership::RecordJoiner joiner;
  std::vector<Bytes> given;
  const auto reading =
      store_->subscribe("", serve::kMembersTopic, [&](const std::string&, const Bytes& bytes) {
        const auto said = membership::decode_statement(bytes, ledger_.founding.run, verify);
        const auto* supply = said ? std::get_if<membership::Supply>(&said->message) : nullptr;
        if (supply == nullptr) return;
        for (const Bytes& message : supply->messages) {
          if (auto whole = joiner.take(message)) given.push_back(*std::move(whole));
        }
      });
  const auto coordinator = signer_of(1);
  store_->publish(serve::kCoordinatorsTopic,
                  membership::encode_statement({ledger_.founding.run, coordinator->key(), ++said_,
                                                membership::AskRecords{0, 3}},
                                               *coordinator));
  network_.run();
  EXPECT_EQ(given, std::vector<Bytes>{record});
}

TEST_F(FollowerCase, GivesTheStoreAgainSoonWhatItHadNoRoomFor) {
  follow(0);
  append(ledger_.found());
  append(ledger_.admit(0));
  append(ledger_.open(0, 0));
  const Bytes payload = {1, 2, 3};
  network_.set_disk_bytes(0);
  follower_->offer(0, 0, payload, 0);
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
  const auto announcements = store_->subscribe("", serve::kAnnouncementsTopic, hear);
  const auto offers = store_->subscribe("", serve::kMembersTopic, hear);
  follow(0);
  append(ledger_.found());
  append(ledger_.admit(0));
  append(ledger_.open(0, 0));
  const Bytes payload = {1, 2, 3};
  network_.set_disk_bytes(0);
  follower_->offer(0, 0, payload, 0);
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
      network_.connect(transport::participant_name(member_key(1)));
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
    follower_->offer(0, 0, payload_, 0);
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
    sums_ = serve::SumRule{config::Sums::kCoordinator, &transport::kF32};
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
    holder_ = network_.connect(transport::participant_name(signer->key()));
    const transport::BlobId id =
        holder_->put(std::make_shared<const Bytes>(sum_), transport::Priority::kRound,
                     [](const Result<void>&) {});
    network_.run();
    say(*signer, factor, id);
  }
  void say_none() {
    const auto signer = signer_of(kCoordinator);
    holder_ = network_.connect(transport::participant_name(signer->key()));
    say(*signer, 1, {});
  }
  void say(const Signer& signer, float factor, const transport::BlobId& id) {
    const membership::Sum sum{
        0, 0, serve::digest_of(commit_.contributions), WireType::kF32, factor, id.name, id.bytes};
    holder_->publish(
        serve::kCoordinatorsTopic,
        membership::encode_statement({ledger_.founding.run, signer.key(), ++said_, sum}, signer));
    network_.run();
  }
  // What the follower gives as the sum; empty: the worker has to form it.
  Bytes given(float factor) {
    const auto sum = follower_->sum(commit_, WireType::kF32, factor);
    EXPECT_TRUE(sum);
    return sum && *sum ? **sum : Bytes();
  }

  Commit commit_;
  const Bytes sum_ = Bytes(16, 7);
  std::unique_ptr<transport::Courier> holder_;
  const std::unique_ptr<transport::Courier> other_ =
      network_.connect(transport::participant_name(member_key(1)));
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
