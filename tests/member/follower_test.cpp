#include "thinwire/member/follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/member/follower_case.h"
#include "thinwire/base/clock.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::member {
namespace {

constexpr double kTimeoutSeconds = 60;

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
  EXPECT_EQ(follower_->starts_over(), "the ledger's history changed: the coordinator " +
                                          key_id(ledger_.founding.coordinators.front()) +
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

// As when only a member of a site that is down has the one that it was assigned.
TEST_F(FollowerCase, TakesALaterSnapshotInsteadOfOneThatCannotBeFetched) {
  const Result<StartState> start = follow_from_initial_weights();
  ASSERT_TRUE(start);
  EXPECT_FALSE(follower_->skip(*start)) << "there is no other";
  append(ledger_.admit(1));
  append(ledger_.add({membership::Snapshot{1, 2, {}, 10}}));
  EXPECT_FALSE(follower_->is_obsolete(*start));
  EXPECT_TRUE(follower_->skip(*start));
  const Result<StartState> later = follower_->wait_start_state();
  ASSERT_TRUE(later);
  EXPECT_EQ(later->sequence, 2u);
  EXPECT_FALSE(follower_->is_obsolete(*later));
  EXPECT_FALSE(follower_->skip(*later));
  EXPECT_TRUE(follower_->begin(*later, 1));
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
    store_->publish(membership::kCoordinatorsTopic,
                    membership::encode_statement({ledger_.founding.run, coordinator->key(), number,
                                                  membership::AskSnapshot{0}},
                                                 *coordinator));
    network_.run();
    EXPECT_TRUE(follower_->wants_snapshot(1)) << "request " << number;
    follower_->store_snapshot(1, {1, 2, 3});
    network_.run();
  }
}

constexpr uint64_t kHour = 3'600'000'000;  // in the numbers of statements

// The process before this one had a clock that was ahead.
TEST_F(FollowerCase, GoesOnFromWhatTheCoordinatorHasOfIt) {
  std::vector<uint64_t> numbers;
  const auto reading =
      store_->subscribe("", membership::kMembersTopic, [&](const std::string&, const Bytes& bytes) {
        const auto said = membership::decode_statement(bytes, ledger_.founding.run, verify);
        if (said) numbers.push_back(said->number);
      });
  ASSERT_TRUE(follow_from_initial_weights());
  const auto coordinator = signer_of(1), other = signer_of(2);
  membership::StatementNumbers clock;
  const uint64_t ahead = clock.next() + kHour;
  const auto tell = [&](const Signer& author) {
    const Bytes later = membership::encode_statement(
        {ledger_.founding.run, author.key(), ahead, membership::LeaveNotice{0}}, author);
    store_->publish(membership::kCoordinatorsTopic,
                    membership::encode_statement({ledger_.founding.run, coordinator->key(), ++said_,
                                                  membership::Overtaken{later}},
                                                 *coordinator));
    network_.run();
  };
  const auto await_another = [&] {
    const size_t before = numbers.size();
    follower_->evaluated(1, "validation", 1, 1);  // says it at once
    network_.run();
    ASSERT_GT(numbers.size(), before);
  };
  tell(*other);
  await_another();
  EXPECT_LT(numbers.back(), ahead) << "that was another's";
  tell(*signer_);
  await_another();
  EXPECT_GT(numbers.back(), ahead);
}

// A standby whose clock is right takes over from a coordinator whose clock was ahead.
TEST_F(FollowerCase, TellsACoordinatorWhatOvertookIt) {
  std::vector<Bytes> told;
  const auto reading = store_->subscribe(
      "", membership::kAnnouncementsTopic, [&](const std::string&, const Bytes& bytes) {
        const auto said = membership::decode_statement(bytes, ledger_.founding.run, verify);
        const auto* one = said ? std::get_if<membership::Overtaken>(&said->message) : nullptr;
        if (one != nullptr) told.push_back(one->later);
      });
  ASSERT_TRUE(follow_from_initial_weights());
  const auto coordinator = signer_of(1);
  const auto ask = [&](uint64_t number) {
    const Bytes statement = membership::encode_statement(
        {ledger_.founding.run, coordinator->key(), number, membership::AskSnapshot{7}},
        *coordinator);
    store_->publish(membership::kCoordinatorsTopic, statement);
    network_.run();
    return statement;
  };
  const Bytes later = ask(2 * kHour);
  EXPECT_TRUE(told.empty());
  ask(kHour);
  ask(kHour + 1);
  EXPECT_EQ(told, std::vector<Bytes>{later}) << "once in a while is enough";
}

// The member replays rounds 0 and 1.
TEST_F(FollowerCase, ReportsAndShowsHowFarItHasCaughtUp) {
  const Result<StartState> start = follow_from_initial_weights();
  std::vector<uint64_t> reported;
  const auto reading =
      store_->subscribe("", membership::kMembersTopic, [&](const std::string&, const Bytes& bytes) {
        const auto said = membership::decode_statement(bytes, ledger_.founding.run, verify);
        const auto* report = said ? std::get_if<membership::Report>(&said->message) : nullptr;
        if (report != nullptr && report->position) {
          reported.push_back(report->position->sequence);
        }
      });
  append(ledger_.admit(1));
  for (const uint64_t round : {0, 1}) {
    membership::Opening opening;
    opening.round = opening.first_step = round;
    opening.steps = {{0.5f, 0.5f}};
    opening.roster = {{1, {0, 4}, round}};
    append(ledger_.add({PhaseChange{1, Phase::kActive, {}}}, {}, {opening}));
    append(ledger_.close(round));
  }
  ASSERT_TRUE(start && follower_->begin(*start, 0));
  follower_->completed(1);
  follower_->announce_leaving(0);  // reports for the last time
  network_.run();
  ASSERT_FALSE(reported.empty());
  EXPECT_EQ(reported.back(), 6u) << "the record that closed round 0";
  EXPECT_EQ(activities_.back(), "catches up: it has reached round 0, and the run round 1");
}

TEST_F(FollowerCase, SaysWhyItIsExcluded) {
  ASSERT_TRUE(follow_from_initial_weights());
  const auto coordinator = signer_of(1);
  store_->publish(
      membership::kCoordinatorsTopic,
      membership::encode_statement({ledger_.founding.run, coordinator->key(), ++said_,
                                    membership::Refuse{signer_->key(), "its key was revoked"}},
                                   *coordinator));
  network_.run();
  EXPECT_FALSE(follower_->refused()) << "a contribution may be refused, too";
  append(ledger_.add({PhaseChange{0, Phase::kExcluded, {}}}));
  EXPECT_EQ(follower_->refused(), "it is excluded: its key was revoked");
  const auto start = follower_->wait_start_state();
  ASSERT_FALSE(start);
  EXPECT_EQ(start.error().kind, FailureKind::kRefused);
}

// A courier whose server may no longer let it in.
class DeniedCourier final : public transport::Courier {
 public:
  explicit DeniedCourier(std::unique_ptr<transport::Courier> courier)
      : courier_(std::move(courier)) {}
  const std::string& self() const override { return courier_->self(); }
  bool connected() const override { return !is_denied && courier_->connected(); }
  std::string denied() const override { return is_denied ? "its key is not known" : ""; }
  transport::BlobId put(std::shared_ptr<const Bytes> blob, transport::Priority priority,
                        Done done) override {
    return courier_->put(std::move(blob), priority, std::move(done));
  }
  void get_part(const Sha256& blob, const transport::BlobId& part, std::vector<std::string> holders,
                transport::Priority priority, Got got) override {
    courier_->get_part(blob, part, std::move(holders), priority, std::move(got));
  }
  void drop(const Sha256& blob, const std::string& holder, Done done) override {
    courier_->drop(blob, holder, std::move(done));
  }
  void count(Counted counted) override { courier_->count(std::move(counted)); }
  void list(const std::string& holder, Listed listed) override {
    courier_->list(holder, std::move(listed));
  }
  void publish(const std::string& topic, Bytes statement) override {
    courier_->publish(topic, std::move(statement));
  }
  std::unique_ptr<transport::Subscription> subscribe(const std::string& from,
                                                     const std::string& topic,
                                                     OnStatement on_statement) override {
    return courier_->subscribe(from, topic, std::move(on_statement));
  }
  void append(const std::string& stream, uint64_t expected_last, Bytes record,
              Appended appended) override {
    courier_->append(stream, expected_last, std::move(record), std::move(appended));
  }
  void last(const std::string& stream, Appended answered) override {
    courier_->last(stream, std::move(answered));
  }
  std::unique_ptr<transport::Subscription> read(const std::string& stream, uint64_t first,
                                                Take take) override {
    return courier_->read(stream, first, std::move(take));
  }

  std::atomic<bool> is_denied = false;

 private:
  const std::unique_ptr<transport::Courier> courier_;
};

TEST_F(FollowerCase, EndsItsWaitsOnceItsServerNoLongerLetsItIn) {
  signer_ = signer_of(100);
  auto courier =
      std::make_unique<DeniedCourier>(network_.connect(participant_name(signer_->key())));
  DeniedCourier& denied = *courier;
  courier_ = std::move(courier);
  follower_.emplace(*courier_, *signer_, plan_,
                    FollowerSettings{.machine = {ledger_.founding, timeout_s_}});
  append(ledger_.found());
  append(ledger_.admit(0));
  append(ledger_.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
  const auto start = follower_->wait_start_state();
  ASSERT_TRUE(start);
  ASSERT_TRUE(follower_->begin(*start, 0));
  EXPECT_FALSE(follower_->refused());
  denied.is_denied = true;
  EXPECT_FALSE(follower_->opening(0)) << "it is not waited for";
  EXPECT_EQ(follower_->refused(), "its key is not known");
  EXPECT_EQ(follower_->wait_start_state().error().message, "its key is not known");
  const Stopwatch watch;
  follower_->announce_leaving(kTimeoutSeconds);
  EXPECT_LT(watch.seconds(), kTimeoutSeconds) << "nobody would receive it";
}

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
      store_->subscribe("", membership::kMembersTopic, [&](const std::string&, const Bytes& bytes) {
        const auto said = membership::decode_statement(bytes, ledger_.founding.run, verify);
        const auto* supply = said ? std::get_if<membership::Supply>(&said->message) : nullptr;
        if (supply == nullptr) return;
        for (const Bytes& message : supply->messages) {
          if (auto whole = joiner.take(message)) given.push_back(*std::move(whole));
        }
      });
  const auto coordinator = signer_of(1);
  store_->publish(membership::kCoordinatorsTopic,
                  membership::encode_statement({ledger_.founding.run, coordinator->key(), ++said_,
                                                membership::AskRecords{0, 3}},
                                               *coordinator));
  network_.run();
  EXPECT_EQ(given, std::vector<Bytes>{record});
}

// One of them waits for the round to close, the other one for the next to open.
TEST_F(FollowerCase, ShowsForWhichOfTwoThingsItWaitsWithoutChangingItsMind) {
  const Result<StartState> start = follow_from_initial_weights();
  append(ledger_.admit(1));
  append(ledger_.open(0, 0));
  ASSERT_TRUE(start && follower_->begin(*start, 0));
  const auto await = [this](const std::string& text, size_t after) {
    std::unique_lock lock(said_mutex_);
    const auto shown = [&] {
      return std::ranges::find(activities_, text) != activities_.end() &&
             activities_.size() > after;
    };
    return active_.wait_for(lock, std::chrono::duration<double>(kTimeoutSeconds), shown);
  };
  std::thread next([this] { (void)follower_->opening(1); });
  EXPECT_TRUE(await("waits for round 1 to open", 0));
  std::thread round([this] { (void)follower_->commit(0, 0); });
  EXPECT_TRUE(await("waits for the coordinator to close round 0", 1));
  {
    std::unique_lock lock(said_mutex_);
    const size_t shown = activities_.size();
    EXPECT_FALSE(active_.wait_for(lock, std::chrono::milliseconds(700), [&] {
      return activities_.size() > shown;
    })) << activities_.back();
  }
  follower_->end_waits();
  next.join();
  round.join();
}

// The store ends at record 3, and the member has a checkpoint at record 5.
class OlderLedger : public FollowerCase {
 protected:
  void SetUp() override {
    all_ = {ledger_.found(), ledger_.admit(0), ledger_.open(0, 0), ledger_.admit(1),
            ledger_.close(0)};
    for (size_t i = 0; i < 3; ++i) append(all_[i]);
    for (size_t i = 0; i < all_.size(); ++i) records_.emplace(i + 1, all_[i]);
    place_.settled = place_.begun = 1;
    place_.closed = {5, membership::record_hash(all_[4])};
    place_.opened = {3, membership::record_hash(all_[2])};
  }
  // What it supplies when it is asked.
  std::vector<Bytes> given(uint64_t first) {
    std::vector<Bytes> given;
    const auto reading = store_->subscribe(
        "", membership::kMembersTopic, [&](const std::string&, const Bytes& bytes) {
          const auto said = membership::decode_statement(bytes, ledger_.founding.run, verify);
          const auto* supply = said ? std::get_if<membership::Supply>(&said->message) : nullptr;
          if (supply != nullptr) given = supply->messages;
        });
    const auto coordinator = signer_of(1);
    store_->publish(membership::kCoordinatorsTopic,
                    membership::encode_statement({ledger_.founding.run, coordinator->key(), ++said_,
                                                  membership::AskRecords{0, first}},
                                                 *coordinator));
    network_.run();
    return given;
  }

  std::vector<Bytes> all_;
  std::map<uint64_t, Bytes> records_;
  Place place_;
};

TEST_F(OlderLedger, IsGivenTheRecordsOfTheCheckpointBeforeTheMemberStarts) {
  follow(0, place_, records_);
  network_.run();
  EXPECT_EQ(given(4), (std::vector<Bytes>{all_[3], all_[4]}));
  std::thread restored([this] {
    for (const Stopwatch watch; watch.seconds() < kTimeoutSeconds;) {
      const std::lock_guard lock(said_mutex_);
      if (messages_.find("before this member's checkpoint at record 5") != messages_.npos) break;
    }
    append(all_[3]);
    append(all_[4]);
  });
  const Result<StartState> start = follower_->wait_start_state();
  restored.join();
  ASSERT_TRUE(start);
  EXPECT_TRUE(start->checkpoint);
  EXPECT_EQ(start->sequence, 5u);
}

TEST_F(OlderLedger, ThatWasContinuedOtherwiseIsFollowedAndSaidSo) {
  WrittenLedger other;
  other.found();
  other.admit(0);
  other.open(0, 0);
  append(other.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
  follow(0, place_, records_);
  network_.run();
  const Result<StartState> start = follower_->wait_start_state();
  ASSERT_TRUE(start);
  EXPECT_FALSE(start->checkpoint);
  EXPECT_NE(messages_.find("at record 5 of another history of the run"), messages_.npos);
}

}  // namespace
}  // namespace thinwire::member
