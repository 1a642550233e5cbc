// The courier over a folder.
#include "thinwire/transport/mailbox/courier_mailbox.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "mailbox_world.h"
#include "tests/file_size_limit.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/mailbox/mailbox_place.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Mailboxes, CourierContract,
                         testing::Values(WorldKind{
                             "Mailbox",
                             [] { return std::unique_ptr<CourierWorld>(new MailboxWorld); }}),
                         [](const auto& kind) { return kind.param.name; });

class Mailbox : public testing::Test {
 protected:
  fs::path chunk_file(const std::string& holder, const Bytes& chunk) const {
    const std::string hex = to_hex(sha256(chunk));
    return world_.files_of(holder) / "blobs" / hex.substr(0, 2) / (hex + "-0");
  }
  fs::path record_file(uint64_t sequence) const {
    return world_.files_of("here") / "records" / "ledger" / record_name(sequence);
  }
  std::vector<std::string> statements_of(const std::string& author) const {
    std::vector<std::string> names;
    const fs::path folder = world_.files_of(author) / "statements";
    if (!fs::exists(folder)) return names;
    for (const auto& one : fs::directory_iterator(folder)) {
      names.push_back(one.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  // Until what the courier was asked for before has been done.
  void settle(Courier& courier) {
    EXPECT_TRUE(
        answer_of<uint64_t>(world_, [&](auto answered) { courier.last("ledger", answered); }));
  }

  MailboxWorld world_;
};

Courier::OnStatement texts_into(Mail<std::string>& mail) {
  return [&mail](const std::string& from, const Bytes& said) {
    mail.add(from + ": " + std::string(said.begin(), said.end()));
  };
}

FailureKind failure_of(const Result<Bytes>& result) {
  return result ? FailureKind::kAborted : result.error().kind;
}

TEST_F(Mailbox, AFolderThatIsNotThereIsAFailureThatNamesIt) {
  MailboxOptions options = world_.options("here");
  options.folder /= "nowhere";
  const auto courier = open_mailbox_courier(options);
  ASSERT_FALSE(courier);
  EXPECT_EQ(courier.error().kind, FailureKind::kLostPeer);
  EXPECT_THAT(courier.error().message, HasSubstr("nowhere"));
  EXPECT_FALSE(fs::exists(options.folder));
}

// As when a share is unmounted and mounted again.
TEST_F(Mailbox, WhatIsAskedForWhileTheFolderIsAwayIsDoneOnceItIsBack) {
  const auto here = world_.connect("here");
  settle(*here);
  const fs::path folder = world_.options("here").folder;
  const fs::path away = folder.string() + "_away";
  fs::rename(folder, away);
  while (here->connected()) std::this_thread::yield();
  Mail<bool> stored;
  const Bytes blob = random_bytes(1000, 1);
  here->put(std::make_shared<const Bytes>(blob), Priority::kRound,
            [&](const Result<void>& done) { stored.add(done.has_value()); });
  Mail<uint64_t> appended;
  here->append("ledger", 0, bytes_of("one"),
               [&](const Result<uint64_t>& done) { appended.add(done.value_or(0)); });
  EXPECT_FALSE(fs::exists(folder));
  fs::rename(away, folder);
  ASSERT_TRUE(world_.wait(stored, 1));
  ASSERT_TRUE(world_.wait(appended, 1));
  EXPECT_THAT(stored.all(), ElementsAre(true));
  EXPECT_THAT(appended.all(), ElementsAre(1));
  while (!here->connected()) std::this_thread::yield();
}

TEST_F(Mailbox, ARequestFailsIfTheFolderStaysAway) {
  MailboxOptions options = world_.options("here");
  options.timeout_s = 0.1;
  const auto here = std::move(*open_mailbox_courier(options));
  const fs::path away = options.folder.string() + "_away";
  fs::rename(options.folder, away);
  const Result<void> stored = put(world_, *here, random_bytes(10, 1));
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, FailureKind::kDeadline);
  const Result<uint64_t> appended = append(world_, *here, "ledger", 0, "one");
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().kind, FailureKind::kDeadline);
  fs::rename(away, options.folder);
}

TEST_F(Mailbox, AnAlteredChunkComesFromAnotherHolderAndIsMendedByItsOwn) {
  const auto here = world_.connect("here");
  const auto there = world_.connect("there");
  const Bytes blob = random_bytes(1000, 1);
  ASSERT_TRUE(put(world_, *here, blob));
  ASSERT_TRUE(put(world_, *there, blob));
  for (const size_t bytes : {size_t{1000}, size_t{999}, size_t{0}, 2 * kMaxMessageBytes}) {
    write_file(chunk_file("here", blob), std::string(bytes, 'x'));
    EXPECT_EQ(failure_of(get(world_, *there, blob_id(blob), {"here"})),
              FailureKind::kCorruptPayload)
        << bytes;
    EXPECT_EQ(get(world_, *there, blob_id(blob), {"here", "there"}).value_or(Bytes()), blob);
  }
  ASSERT_TRUE(put(world_, *here, blob));
  EXPECT_EQ(get(world_, *there, blob_id(blob), {"here"}).value_or(Bytes()), blob);
}

TEST_F(Mailbox, AFileIsReadOnceItIsWholeUnderItsOwnName) {
  MailboxOptions options = world_.options("there");
  options.settle_s = kMailboxPatience;
  const auto there = std::move(*open_mailbox_courier(options));
  const Bytes blob = random_bytes(1000, 1);
  Mail<Bytes> fetched;
  there->get(blob_id(blob), {"here"}, Priority::kRound,
             [&](const Result<Bytes>& got) { fetched.add(got.value_or(Bytes())); });
  const fs::path file = chunk_file("here", blob);
  write_file(file.string() + ".partial", "x");
  write_file(file.string() + ".tmp", "x");
  const std::string whole(blob.begin(), blob.end());
  write_file(file, whole.substr(0, 500));
  settle(*there);
  EXPECT_THAT(fetched.all(), IsEmpty());
  write_file(file, whole);
  ASSERT_TRUE(world_.wait(fetched, 1));
  EXPECT_THAT(fetched.all(), ElementsAre(blob));
}

TEST_F(Mailbox, RecordsAndStatementsCountOnceTheyAreWhole) {
  const auto there = world_.connect("there");
  Mail<std::string> read, said;
  const auto reading = there->read("ledger", 1, [&](uint64_t, const Bytes& record) {
    read.add(std::string(record.begin(), record.end()));
  });
  const auto listening = there->subscribe("", "topic", texts_into(said));
  settle(*there);
  const Bytes sealed = seal(bytes_of("whole"));
  const std::string file(sealed.begin(), sealed.end());
  const fs::path statement = world_.files_of("here") / "statements" / print_numbered({7, "topic"});
  for (const std::string& altered : {std::string(), file.substr(0, file.size() - 1), file + "x",
                                     std::string(file.size(), 'x')}) {
    write_file(record_file(1), altered);
    write_file(statement, altered);
    settle(*there);
  }
  EXPECT_THAT(read.all(), IsEmpty());
  EXPECT_THAT(said.all(), IsEmpty());
  write_file(statement, file);
  write_file(record_file(1), file);
  ASSERT_TRUE(world_.wait(read, 1));
  ASSERT_TRUE(world_.wait(said, 1));
  EXPECT_THAT(read.all(), ElementsAre("whole"));
  EXPECT_THAT(said.all(), ElementsAre("here: whole"));
}

TEST_F(Mailbox, AFullDiskRefusesAndKeepsWhatItHas) {
  const auto here = world_.connect("here");
  const Bytes small = random_bytes(100, 1), large = random_bytes(5000, 2);
  {
    const tests::FileSizeLimit full(1000);
    ASSERT_TRUE(put(world_, *here, small));
    const Result<void> refused = put(world_, *here, large);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, FailureKind::kRefused);
    const Result<uint64_t> appended = append(world_, *here, "ledger", 0, std::string(2000, 'x'));
    ASSERT_FALSE(appended);
    EXPECT_EQ(appended.error().kind, FailureKind::kRefused);
    EXPECT_FALSE(fs::exists(chunk_file("here", large).string() + ".partial"));
  }
  EXPECT_TRUE(get(world_, *here, blob_id(small), {"here"}));
  ASSERT_TRUE(put(world_, *here, large));
  EXPECT_TRUE(get(world_, *here, blob_id(large), {"here"}));
  EXPECT_EQ(append(world_, *here, "ledger", 0, "one").value_or(0), 1u);
}

TEST_F(Mailbox, SaysOnceThatItsDiskIsFullAndOnceThatItHasRoom) {
  Mail<std::string> told;
  MailboxOptions options = world_.options("here");
  options.notice = [&](const std::string& sentence) { told.add(sentence); };
  const auto here = open_mailbox_courier(options);
  ASSERT_TRUE(here);
  ASSERT_TRUE(put(world_, **here, random_bytes(5000, 1)));
  {
    const tests::FileSizeLimit full(1000);
    for (const uint64_t seed : {2, 3}) EXPECT_FALSE(put(world_, **here, random_bytes(5000, seed)));
    EXPECT_TRUE(put(world_, **here, random_bytes(100, 4))) << "there is room for little";
    EXPECT_FALSE(append(world_, **here, "ledger", 0, std::string(2000, 'x')));
    (*here)->publish("topic", Bytes(2000));  // is lost
    settle(**here);
  }
  ASSERT_TRUE(put(world_, **here, random_bytes(5000, 5)));
  ASSERT_TRUE(put(world_, **here, random_bytes(5000, 6)));
  EXPECT_THAT(told.all(),
              ElementsAre(testing::AllOf(HasSubstr("cannot be written to (cannot write"),
                                         HasSubstr("File too large")),
                          HasSubstr("can be written to again")));
}

// Files of other programs, and names that no participant writes.
TEST_F(Mailbox, WhatIsNotOfThisFormatIsIgnored) {
  const auto here = world_.connect("here");
  const auto there = world_.connect("there");
  ASSERT_TRUE(append(world_, *here, "ledger", 0, "one"));
  Mail<std::string> said, read;
  const auto listening = there->subscribe("", "", texts_into(said));
  settle(*there);
  const Bytes sealed = seal(bytes_of("foreign"));
  const std::string file(sealed.begin(), sealed.end());
  const fs::path run = world_.options("here").folder / "run";
  const fs::path statements = world_.files_of("here") / "statements";
  fs::create_directories(statements / print_numbered({3, "folder"}));
  for (const std::string& name :
       {std::string("notes.txt"), std::string("00000000000000000001-a b"),
        std::string("00000000000000000001-"), std::string("-topic"), std::string("1-topic"),
        std::string("99999999999999999999-topic"), std::string("0000000000000000000x-topic"),
        "00000000000000000001-" + std::string(65, 'x'), print_numbered({1, "topic"}) + ".partial",
        ".syncthing." + print_numbered({1, "topic"}) + ".tmp", std::string("\x1b[2J\n")}) {
    write_file(statements / name, file);
  }
  write_file(run / "a b" / "statements" / print_numbered({1, "topic"}), file);
  write_file(run / ".stfolder" / "statements" / print_numbered({1, "topic"}), file);
  write_file(run / "file", "not a folder");
  for (const char* name : {"1", "000000000000", "-00000000002", "000000000002.partial"}) {
    write_file(record_file(1).parent_path() / name, file);
  }
  here->publish("topic", bytes_of("own"));
  ASSERT_TRUE(world_.wait(said, 1));
  EXPECT_THAT(said.all(), ElementsAre("here: own"));
  const auto reading = there->read("ledger", 1, [&](uint64_t, const Bytes& record) {
    read.add(std::string(record.begin(), record.end()));
  });
  ASSERT_TRUE(append(world_, *here, "ledger", 1, "two"));
  ASSERT_TRUE(world_.wait(read, 2));
  EXPECT_THAT(read.all(), ElementsAre("one", "two"));
}

// Whoever can write to the folder may put links and pipes there.
TEST_F(Mailbox, LinksAndPipesAreNotFollowed) {
  const auto here = world_.connect("here");
  const auto there = world_.connect("there");
  MailboxFolder elsewhere;
  const Bytes blob = random_bytes(1000, 1), other = random_bytes(1000, 2);
  const std::string content(blob.begin(), blob.end());
  write_file(elsewhere.path() / "secret", content);
  ASSERT_TRUE(put(world_, *here, other));
  const fs::path link = chunk_file("here", blob);
  fs::create_directories(link.parent_path());
  fs::create_symlink(elsewhere.path() / "secret", link);
  EXPECT_EQ(failure_of(get(world_, *there, blob_id(blob), {"here"})), FailureKind::kLostPeer);
  const fs::path pipe = chunk_file("there", other);
  fs::create_directories(pipe.parent_path());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(get(world_, *here, blob_id(other), {"there", "here"}));
  // Writing replaces links, and does not go through them.
  fs::create_symlink(elsewhere.path() / "new", link.string() + ".partial");
  ASSERT_TRUE(put(world_, *here, blob));
  EXPECT_FALSE(fs::exists(elsewhere.path() / "new"));
  EXPECT_EQ(read_text_file(elsewhere.path() / "secret"), content);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(link)));
  // Nor does it go through a link to a folder.
  fs::create_directory_symlink(elsewhere.path(), world_.files_of("there") / "statements");
  there->publish("topic", bytes_of("x"));
  settle(*there);
  EXPECT_EQ(std::distance(fs::directory_iterator(elsewhere.path()), {}), 1);
}

TEST_F(Mailbox, NobodyButTheCoordinatorAppends) {
  const auto here = world_.connect("here");
  const auto there = world_.connect("there");
  Mail<std::string> read;
  const auto reading = here->read("ledger", 1, [&](uint64_t, const Bytes& record) {
    read.add(std::string(record.begin(), record.end()));
  });
  const Bytes sealed = seal(bytes_of("forged"));
  write_file(world_.files_of("there") / "records" / "ledger" / record_name(1),
             std::string(sealed.begin(), sealed.end()));
  settle(*here);
  const Result<uint64_t> refused = append(world_, *there, "ledger", 0, "other one");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::kRefused);
  ASSERT_TRUE(append(world_, *here, "ledger", 0, "one"));
  ASSERT_TRUE(world_.wait(read, 1));
  EXPECT_THAT(read.all(), ElementsAre("one"));
}

// Hosts believe servers that a connection has ended; here there is none.
TEST_F(Mailbox, NobodySpeaksForAServer) {
  const auto here = world_.connect("here");
  Mail<std::string> said;
  const auto listening = here->subscribe("", "", texts_into(said));
  settle(*here);
  world_.connect(kServerParticipant)->publish(kDepartureTopic, bytes_of("forged"));
  while (statements_of(kServerParticipant).empty()) std::this_thread::yield();
  world_.connect("there")->publish("topic", bytes_of("x"));
  ASSERT_TRUE(world_.wait(said, 1));
  EXPECT_THAT(said.all(), ElementsAre("there: x"));
}

TEST_F(Mailbox, AVisitorLeavesNothing) {
  const auto here = world_.connect("here");
  MailboxOptions options = world_.options("visitor");
  options.leaves_nothing = true;
  auto visitor = std::move(*open_mailbox_courier(options));
  visitor->publish("topic", bytes_of("x"));
  ASSERT_TRUE(put(world_, *visitor, random_bytes(10, 1)));
  EXPECT_TRUE(fs::exists(world_.files_of("visitor")));
  visitor.reset();
  EXPECT_FALSE(fs::exists(world_.files_of("visitor")));
  EXPECT_TRUE(fs::exists(world_.files_of("here")));
}

TEST_F(Mailbox, AParticipantGoesOnWhereItWas) {
  Mail<std::string> said;
  const auto there = world_.connect("there");
  const auto listening = there->subscribe("here", "", texts_into(said));
  settle(*there);
  const Bytes blob = random_bytes(1000, 1);
  for (int lives = 0; lives < 3; ++lives) {
    const auto here = world_.connect("here");
    ASSERT_TRUE(put(world_, *here, blob));
    here->publish("topic", bytes_of(std::to_string(lives)));
    ASSERT_TRUE(append(world_, *here, "ledger", static_cast<uint64_t>(lives), "record"));
    ASSERT_TRUE(world_.wait(said, static_cast<size_t>(lives) + 1));
  }
  EXPECT_THAT(said.all(), ElementsAre("here: 0", "here: 1", "here: 2"));
  EXPECT_THAT(statements_of("here"), SizeIs(3));
}

TEST_F(Mailbox, NumbersRiseEvenIfTheClockGoesBack) {
  const MailboxPlace place(world_.options("here").folder, "run", "here");
  {
    StatementOutbox outbox(place, "statements", {});
    ASSERT_TRUE(outbox.write("topic", {}, 5'000'000));
    ASSERT_TRUE(outbox.write("topic", {}, 4'000'000));
  }
  StatementOutbox outbox(place, "statements", {});
  ASSERT_TRUE(outbox.write("topic", {}, 3'000'000));
  EXPECT_THAT(statements_of("here"), ElementsAre(print_numbered({5'000'000, "topic"}),
                                                 print_numbered({5'000'001, "topic"}),
                                                 print_numbered({5'000'002, "topic"})));
}

TEST_F(Mailbox, OldStatementsAreRemovedByTheirAuthor) {
  const MailboxPlace place(world_.options("here").folder, "run", "here");
  StatementOutbox outbox(place, "statements", {.seconds = 10, .count = 3});
  for (const uint64_t second : {1, 2, 3, 4, 5}) {
    ASSERT_TRUE(outbox.write("topic", {}, second * 1'000'000));
  }
  outbox.clean(5'000'000);
  EXPECT_THAT(statements_of("here"), SizeIs(3));
  outbox.clean(13'500'000);
  EXPECT_THAT(statements_of("here"), SizeIs(2));
  StatementOutbox again(place, "statements", {.seconds = 10, .count = 3});
  again.clean(60'000'000);
  EXPECT_THAT(statements_of("here"), IsEmpty());
}

TEST_F(Mailbox, WhatWasInterruptedIsRemovedAtTheNextStart) {
  world_.connect("here");
  const fs::path chunk = world_.files_of("here") / "blobs" / "ab" / "abcd.partial";
  const fs::path of_another = world_.files_of("there") / "blobs" / "ab" / "abcd.partial";
  write_file(chunk, "x");
  write_file(of_another, "x");
  write_file(record_file(1), "damaged");
  write_file(record_file(2).string() + ".partial", "x");
  const auto here = world_.connect("here");
  EXPECT_FALSE(fs::exists(chunk));
  EXPECT_TRUE(fs::exists(of_another));
  EXPECT_FALSE(fs::exists(record_file(2).string() + ".partial"));
  EXPECT_EQ(append(world_, *here, "ledger", 0, "one").value_or(0), 1u);
}

TEST_F(Mailbox, AGapInAStreamIsItsEnd) {
  const auto here = world_.connect("here");
  for (uint64_t last = 0; last < 4; ++last) {
    ASSERT_TRUE(append(world_, *here, "ledger", last, "record"));
  }
  fs::remove(record_file(3));
  EXPECT_EQ(answer_of<uint64_t>(world_, [&](auto answered) { here->last("ledger", answered); }),
            2u);
  EXPECT_EQ(append(world_, *here, "ledger", 2, "again").value_or(0), 3u);
  EXPECT_EQ(answer_of<uint64_t>(world_, [&](auto answered) { here->last("ledger", answered); }),
            4u);
}

TEST_F(Mailbox, AHolderRemovesWhatTheCoordinatorDrops) {
  const auto here = world_.connect("here");
  auto there = world_.connect("there");
  const Bytes first = random_bytes(1000, 1), second = random_bytes(1000, 2);
  const auto drop = [&](Courier& courier, const Bytes& blob) {
    return answer_of<void>(world_, [&](auto done) {
      courier.drop(blob_id(blob).name, courier.self() == "here" ? "there" : "here", done);
    });
  };
  ASSERT_TRUE(put(world_, *there, first));
  ASSERT_TRUE(put(world_, *there, second));
  ASSERT_TRUE(drop(*here, first));
  while (fs::exists(chunk_file("there", first))) std::this_thread::yield();
  EXPECT_TRUE(fs::exists(chunk_file("there", second)));
  const Result<void> refused = drop(*there, first);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::kRefused);
  // One that was away sees it when it is back.
  there.reset();
  ASSERT_TRUE(drop(*here, second));
  there = world_.connect("there");
  while (fs::exists(chunk_file("there", second))) std::this_thread::yield();
}

TEST_F(Mailbox, RunsInOneFolderDoNotMeet) {
  const auto here = world_.connect("here");
  MailboxOptions options = world_.options("there");
  options.run = "other";
  const auto there = std::move(*open_mailbox_courier(options));
  const Bytes blob = random_bytes(100, 1);
  ASSERT_TRUE(put(world_, *here, blob));
  EXPECT_EQ(failure_of(get(world_, *there, blob_id(blob), {"here"})), FailureKind::kLostPeer);
}

}  // namespace
}  // namespace thinwire::transport
