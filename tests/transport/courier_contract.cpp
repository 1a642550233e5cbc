#include "courier_contract.h"

#include <gmock/gmock.h>

namespace thinwire::transport {

Result<void> put(CourierWorld& world, Courier& courier, const Bytes& blob) {
  Result<void> stored = answer_of<void>(world, [&](auto done) {
    courier.put(std::make_shared<const Bytes>(blob), Priority::kRound, done);
  });
  world.spread();
  return stored;
}

Result<Bytes> get(CourierWorld& world, Courier& courier, const BlobId& id,
                  const std::vector<std::string>& holders) {
  return answer_of<Bytes>(world,
                          [&](auto got) { courier.get(id, holders, Priority::kRound, got); });
}

Result<uint64_t> append(CourierWorld& world, Courier& courier, const std::string& stream,
                        uint64_t expected_last, const std::string& record) {
  return answer_of<uint64_t>(world, [&](auto appended) {
    courier.append(stream, expected_last, bytes_of(record), appended);
  });
}

void flush(CourierWorld& world, Courier& courier) {
  EXPECT_FALSE(get(world, courier, blob_id(bytes_of("nowhere")), {"nobody"}));
}

Bytes random_bytes(size_t size, uint64_t seed) {
  Rng rng(seed, 1);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.bits());
  return bytes;
}

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using Statement = std::pair<std::string, Bytes>;
using Record = std::pair<uint64_t, Bytes>;

Courier::OnStatement into(Mail<Statement>& mail) {
  return [&mail](const std::string& from, Bytes bytes) { mail.add({from, std::move(bytes)}); };
}

Courier::Take into(Mail<Record>& mail) {
  return [&mail](uint64_t sequence, Bytes bytes) { mail.add({sequence, std::move(bytes)}); };
}

FailureKind kind_of(const Result<Bytes>& result) {
  return result ? FailureKind::kAborted : result.error().kind;
}

TEST_P(CourierContract, BlobsOfAnyLengthAreFetchedByTheirNames) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  for (const size_t size : {size_t{0}, size_t{1}, kMaxMessageBytes - 1, kMaxMessageBytes,
                            kMaxMessageBytes + 1, 3 * kMaxMessageBytes + 5}) {
    const Bytes blob = random_bytes(size, size);
    const Result<void> stored = put(*world_, *here, blob);
    ASSERT_TRUE(stored) << stored.error().message;
    const Result<Bytes> fetched = get(*world_, *there, blob_id(blob), {"here"});
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(*fetched, blob) << size;
  }
}

// As much is under way as ever is.
TEST_P(CourierContract, AllOfALongBlobArrives) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  const Bytes blob = random_bytes(150 * kMaxMessageBytes, 9);
  ASSERT_TRUE(put(*world_, *here, blob));
  const Result<Bytes> fetched = get(*world_, *there, blob_id(blob), {"here"});
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_TRUE(*fetched == blob);
}

TEST_P(CourierContract, PutReturnsTheNameAndStoringAgainIsNoFailure) {
  const auto here = world_->connect("here");
  const auto blob = std::make_shared<const Bytes>(random_bytes(kMaxMessageBytes + 9, 4));
  EXPECT_EQ(here->put(blob, Priority::kBulk, [](const Result<void>&) {}), blob_id(*blob));
  EXPECT_TRUE(put(*world_, *here, *blob));
}

TEST_P(CourierContract, WhatOneHolderLacksAnotherGives) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  const Bytes blob = random_bytes(5 * kMaxMessageBytes, 2);
  ASSERT_TRUE(put(*world_, *here, blob));
  const Result<Bytes> fetched = get(*world_, *there, blob_id(blob), {"nobody", "here", "none"});
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(*fetched, blob);
}

TEST_P(CourierContract, ABlobThatNobodyHasIsLost) {
  const auto here = world_->connect("here");
  EXPECT_EQ(kind_of(get(*world_, *here, blob_id(random_bytes(7, 1)), {"here", "nobody"})),
            FailureKind::kLostPeer);
}

TEST_P(CourierContract, ALengthBeyondTheLimitIsRefusedAtOnce) {
  const auto here = world_->connect("here");
  const BlobId huge{sha256({}), uint64_t{1} << 63};
  EXPECT_EQ(kind_of(get(*world_, *here, huge, {"here"})), FailureKind::kRefused);
}

TEST_P(CourierContract, ADroppedBlobIsGoneAndMayBeStoredAgain) {
  const auto here = world_->connect("here");
  const Bytes blob = random_bytes(100, 3);
  ASSERT_TRUE(put(*world_, *here, blob));
  const auto drop = [&] {
    return answer_of<void>(*world_,
                           [&](auto done) { here->drop(blob_id(blob).name, "here", done); });
  };
  ASSERT_TRUE(drop());
  if (!world_->has_copies()) {
    EXPECT_EQ(kind_of(get(*world_, *here, blob_id(blob), {"here"})), FailureKind::kLostPeer);
  }
  EXPECT_TRUE(drop());
  ASSERT_TRUE(put(*world_, *here, blob));
  EXPECT_TRUE(get(*world_, *here, blob_id(blob), {"here"}));
}

TEST_P(CourierContract, WhatIsStoredIsCountedAndListed) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  const auto count = [&] {
    return answer_of<uint64_t>(*world_, [&](auto counted) { here->count(counted); }).value_or(0);
  };
  const auto list = [&](const std::string& holder) {
    auto blobs = answer_of<std::vector<StoredBlob>>(
        *world_, [&](auto listed) { here->list(holder, listed); });
    EXPECT_TRUE(blobs) << blobs.error().message;
    return *blobs;
  };
  EXPECT_EQ(count(), 0u);
  EXPECT_THAT(list("there"), IsEmpty());
  const Bytes blob = random_bytes(3 * kMaxMessageBytes, 8);
  ASSERT_TRUE(put(*world_, *there, blob));
  ASSERT_TRUE(put(*world_, *here, blob));
  ASSERT_TRUE(put(*world_, *here, {1}));
  world_->spread();
  EXPECT_EQ(count(), 9u);
  EXPECT_THAT(list("there"), ElementsAre(StoredBlob{blob_id(blob).name, 4}));
  EXPECT_THAT(list("here"), UnorderedElementsAre(StoredBlob{blob_id(blob).name, 4},
                                                 StoredBlob{blob_id(Bytes{1}).name, 1}));
}

// The second one's first chunks are the first one's, too.
TEST_P(CourierContract, ADroppedBlobTakesNothingFromAnother) {
  const auto here = world_->connect("here");
  const Bytes first = random_bytes(2 * kMaxMessageBytes, 9);
  Bytes second = first;
  second.push_back(1);
  ASSERT_TRUE(put(*world_, *here, first));
  ASSERT_TRUE(put(*world_, *here, second));
  ASSERT_TRUE(
      answer_of<void>(*world_, [&](auto done) { here->drop(blob_id(first).name, "here", done); }));
  EXPECT_EQ(get(*world_, *here, blob_id(second), {"here"}), second);
  if (world_->has_copies()) return;
  EXPECT_EQ(answer_of<uint64_t>(*world_, [&](auto counted) { here->count(counted); }), 4u);
  EXPECT_EQ(kind_of(get(*world_, *here, blob_id(first), {"here"})), FailureKind::kLostPeer);
}

TEST_P(CourierContract, ListAndChunksOfABlobAreFetchedAlone) {
  const auto here = world_->connect("here");
  const Bytes blob = random_bytes(2 * kMaxMessageBytes, 10);
  ASSERT_TRUE(put(*world_, *here, blob));
  const BlobId id = blob_id(blob);
  const auto listed = get(*world_, *here, *list_of(id), {"here"});
  ASSERT_TRUE(listed);
  const std::vector<Sha256> names = listed_names(*listed);
  ASSERT_EQ(names.size(), 2u);
  const auto chunk = answer_of<Bytes>(*world_, [&](auto got) {
    here->get_part(id.name, {names[1], kMaxMessageBytes}, {"here"}, Priority::kRound, got);
  });
  ASSERT_TRUE(chunk);
  EXPECT_TRUE(std::ranges::equal(*chunk, std::span(blob).last(kMaxMessageBytes)));
}

// Bulk of many chunks is asked for first, and is done last.
TEST_P(CourierContract, WhatIsUrgentOvertakesBulk) {
  const auto here = world_->connect("here");
  Mail<std::string> done;
  const auto bulk = std::make_shared<const Bytes>(random_bytes(80 * kMaxMessageBytes, 5));
  const auto urgent = std::make_shared<const Bytes>(random_bytes(2 * kMaxMessageBytes, 6));
  here->put(bulk, Priority::kBulk, [&](const Result<void>&) { done.add("bulk"); });
  here->put(urgent, Priority::kRound, [&](const Result<void>&) { done.add("urgent"); });
  ASSERT_TRUE(world_->wait(done, 2));
  EXPECT_THAT(done.all(), ElementsAre("urgent", "bulk"));
}

TEST_P(CourierContract, StatementsReachThoseWhoListen) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  Mail<Statement> everything, mine, offers;
  const auto all = there->subscribe("", "", into(everything));
  const auto of_here = there->subscribe("here", "", into(mine));
  const auto on_offers = there->subscribe("", "offers", into(offers));
  flush(*world_, *there);
  there->publish("offers", bytes_of("a"));
  flush(*world_, *there);
  here->publish("offers", bytes_of("b"));
  here->publish("other", bytes_of(""));
  ASSERT_TRUE(world_->wait(everything, 3));
  ASSERT_TRUE(world_->wait(mine, 2));
  ASSERT_TRUE(world_->wait(offers, 2));
  EXPECT_THAT(everything.all(), ElementsAre(Statement("there", {'a'}), Statement("here", {'b'}),
                                            Statement("here", {})));
  EXPECT_THAT(mine.all(), ElementsAre(Statement("here", {'b'}), Statement("here", {})));
  EXPECT_THAT(offers.all(), ElementsAre(Statement("there", {'a'}), Statement("here", {'b'})));
}

TEST_P(CourierContract, NothingIsHeardAfterASubscriptionEnds) {
  const auto here = world_->connect("here");
  Mail<Statement> ended, kept;
  auto ending = here->subscribe("", "", into(ended));
  const auto keeping = here->subscribe("", "", into(kept));
  ending.reset();
  here->publish("topic", bytes_of("x"));
  ASSERT_TRUE(world_->wait(kept, 1));
  EXPECT_TRUE(ended.all().empty());
}

TEST_P(CourierContract, ASubscriptionMayEndItself) {
  const auto here = world_->connect("here");
  Mail<Statement> received;
  std::unique_ptr<Subscription> own;
  own = here->subscribe("", "", [&](const std::string& from, Bytes bytes) {
    own.reset();
    received.add({from, std::move(bytes)});
  });
  here->publish("topic", bytes_of("x"));
  EXPECT_TRUE(world_->wait(received, 1));
}

TEST_P(CourierContract, RecordsAreAppendedOnlyBehindTheOneExpected) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  Courier& second = world_->has_one_coordinator() ? *here : *there;
  EXPECT_EQ(append(*world_, *here, "ledger", 0, "one").value_or(0), 1u);
  const Result<uint64_t> late = append(*world_, second, "ledger", 0, "other one");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, FailureKind::kStaleRound);
  EXPECT_EQ(append(*world_, second, "ledger", 1, "two").value_or(0), 2u);
  const Result<uint64_t> early = append(*world_, *here, "ledger", 3, "four");
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().kind, FailureKind::kStaleRound);
}

TEST_P(CourierContract, AStreamSaysHowFarItHasCome) {
  const auto here = world_->connect("here");
  const auto last = [&] {
    return answer_of<uint64_t>(*world_, [&](auto answered) { here->last("ledger", answered); });
  };
  EXPECT_EQ(last(), 0u);
  ASSERT_TRUE(append(*world_, *here, "ledger", 0, "one"));
  ASSERT_TRUE(append(*world_, *here, "ledger", 1, "two"));
  EXPECT_EQ(last(), 2u);
}

TEST_P(CourierContract, RecordsThereAndToComeAreReadInOrder) {
  const auto here = world_->connect("here");
  const auto there = world_->connect("there");
  constexpr uint64_t kThere = 40;
  for (uint64_t i = 0; i < kThere; ++i) {
    ASSERT_TRUE(append(*world_, *here, "ledger", i, std::to_string(i + 1)));
  }
  Mail<Record> from_first, from_later;
  const auto first = there->read("ledger", 1, into(from_first));
  const auto later = there->read("ledger", kThere + 2, into(from_later));
  for (uint64_t i = kThere; i < kThere + 3; ++i) {
    ASSERT_TRUE(append(*world_, *here, "ledger", i, std::to_string(i + 1)));
  }
  ASSERT_TRUE(world_->wait(from_first, kThere + 3));
  ASSERT_TRUE(world_->wait(from_later, 2));
  uint64_t expected = 0;
  for (const auto& [sequence, record] : from_first.all()) {
    EXPECT_EQ(sequence, ++expected);
    EXPECT_EQ(record, bytes_of(std::to_string(sequence)));
  }
  EXPECT_THAT(from_later.all(), ElementsAre(Record(42, {'4', '2'}), Record(43, {'4', '3'})));
}

TEST_P(CourierContract, NamesAndLengthsThatCannotBeAreErrors) {
  const auto here = world_->connect("here");
  const Bytes too_long(kMaxMessageBytes + 1);
  const auto ignore = [](const Result<uint64_t>&) {};
  EXPECT_THROW(here->publish("a.b", {}), UsageError);
  EXPECT_THROW(here->publish("", {}), UsageError);
  EXPECT_THROW(here->publish("topic", too_long), Error);
  EXPECT_THROW(here->append("ledger*", 0, {}, ignore), UsageError);
  EXPECT_THROW(here->append("ledger", 0, too_long, ignore), Error);
  EXPECT_THROW(world_->connect("a b"), UsageError);
}

TEST_P(CourierContract, ClosingAnswersWhatWaits) {
  auto here = world_->connect("here");
  Mail<FailureKind> failures;
  const auto blob = std::make_shared<const Bytes>(random_bytes(90 * kMaxMessageBytes, 8));
  here->put(blob, Priority::kBulk, [&](const Result<void>& done) {
    failures.add(done ? FailureKind::kRefused : done.error().kind);
  });
  here.reset();
  EXPECT_THAT(failures.all(), ElementsAre(FailureKind::kAborted));
}

}  // namespace
}  // namespace thinwire::transport
