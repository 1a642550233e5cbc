// What an attacker may try who reaches the server without a key, with an unknown key, or with a
// member's key.
// docs/security.md names each.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nats_run.h"
#include "thinwire/base/clock.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A bare connection, of somebody who keeps to no protocol.
class Socket {
 public:
  explicit Socket(int port) : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const timeval patience{.tv_sec = static_cast<time_t>(kNatsPatience), .tv_usec = 0};
    ::setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Socket() { ::close(file_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) const {
    (void)::send(file_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  // Whether the server has said something, or has closed.
  bool answered() const {
    char first = 0;
    return ::recv(file_, &first, 1, MSG_PEEK) >= 0 || errno == ECONNRESET;
  }
  // Until the server closes; "hangs" behind it where it does not.
  std::string rest() const {
    std::string all;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::recv(file_, buffer, sizeof(buffer), 0)) > 0) {
      all.append(buffer, static_cast<size_t>(got));
    }
    return got < 0 && errno != ECONNRESET ? all + "hangs" : all;
  }

 private:
  int file_;
  bool connected_ = false;
};

// A member with the library in its own hands.
struct Intruder {
  Intruder(NatsRun& run, const std::string& name) {
    auto made = connect_nats(
        run.options(name).target,
        {[this](NatsMessage message) { received.add(std::move(message)); }, [](bool) {},
         [this](std::string text) { refused.add(std::move(text)); }, [](const std::string&) {}});
    EXPECT_TRUE(made) << made.error().message;
    connection = std::move(*made);
  }
  Mail<NatsMessage> received;
  Mail<std::string> refused;
  std::unique_ptr<NatsConnection> connection;
};

// The process of a server that may open few files, and of somebody who is connected to it. Says its
// port, and stores something once it is told to; returns 0 if that is stored.
int store_with_few_files(int port_to, int told_by) {
  constexpr rlimit kFew{.rlim_cur = 300, .rlim_max = 300};
  if (::setrlimit(RLIMIT_NOFILE, &kFew) != 0) return 1;
  NatsRun run({.handshake_s = 2 * kNatsPatience});
  const auto here = run.connect("here");
  const int port = run.server().port();
  char told = 0;
  if (::write(port_to, &port, sizeof(port)) != sizeof(port)) return 1;
  if (::read(told_by, &told, 1) != 1) return 1;
  return put(run, *here, random_bytes(1'000'000, 1)) ? 0 : 2;
}

Failure failure_to_connect(const NatsOptions& options) {
  const auto courier = connect_nats_courier(options);
  return courier ? Failure{FailureKind::kAborted, "it connects"} : courier.error();
}

FailureKind refusal_of(const NatsOptions& options) { return failure_to_connect(options).kind; }

TEST(Threats, AServerOfAnotherAuthorityIsNotBelieved) {
  NatsRun run;
  NatsOptions options = run.options("here");
  options.target.ca_pem = make_authority({0, 4'000'000'000}).certificate;
  EXPECT_EQ(refusal_of(options), FailureKind::kRefused);
}

TEST(Threats, OfTheCertificatesThatAServerPresentsOnlyTheTokensIsTaken) {
  NatsRun run;
  const std::string authority = run.server().authority();
  const auto asked = [&](const std::string& pem, int port) {
    return presented_authority("127.0.0.1", port, fingerprint_of(certificate_bytes(pem)),
                               kNatsPatience);
  };
  const Result<std::string> found = asked(authority, run.server().port());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, authority);
  // Another authority of the same name is another run's.
  const auto other = asked(make_authority(validity_from_now()).certificate, run.server().port());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, FailureKind::kRefused);
  const auto nobody = asked(authority, 1);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, FailureKind::kLostPeer);
}

// Its certificate ran out yesterday.
TEST(Threats, AnExpiredCertificateIsNotBelieved) {
  const TestFolder folder;
  const auto now = static_cast<int64_t>(unix_seconds());
  constexpr int64_t kDay = 86400;
  const Certificate authority = make_authority({now - 9 * kDay, now + 9 * kDay});
  const Certificate old = make_server_certificate(authority, {now - 9 * kDay, now - kDay});
  write_file(folder.path() / "authority.pem", authority.certificate);
  write_file(folder.path() / "server.pem", old.certificate);
  write_file(folder.path() / "server.key", old.key);
  const Seed seed = make_seed();
  const NatsServer server(
      {.host = "127.0.0.1", .folder = folder.path(), .run = "run", .streams = {}},
      {{"here", make_signer(seed)->key(), NatsRole::kMember}}, kNatsPatience);
  const NatsOptions options{
      .target = {{"127.0.0.1:" + std::to_string(server.port())}, server.authority(), seed, 5},
      .run = "run",
      .self = "here"};
  EXPECT_EQ(refusal_of(options), FailureKind::kRefused);
}

TEST(Threats, NobodyIsServedWithoutTls) {
  NatsRun run;
  const Socket socket(run.server().port());
  ASSERT_TRUE(socket.connected());
  socket.send("CONNECT {\"verbose\":true}\r\nPING\r\n");
  const std::string answer = socket.rest();
  EXPECT_THAT(answer, HasSubstr("\"tls_required\":true"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("PONG")));
  EXPECT_THAT(answer, testing::Not(HasSubstr("hangs")));
}

// Each connection without TLS is a line of the server's log.
TEST(Threats, StrangersDoNotFillTheDisk) {
  constexpr uint64_t kLogBytes = 20'000;
  NatsRun run({.log_bytes = kLogBytes});
  const fs::path log = run.folder() / "nats/nats.log";
  for (uint64_t logged = 0; logged < 10 * kLogBytes;) {
    const uint64_t before = fs::file_size(log);
    for (int i = 0; i < 100; ++i) {
      const Socket socket(run.server().port());
      socket.send("GET / HTTP/1.1\r\n\r\n");
      (void)socket.rest();
    }
    logged += fs::file_size(log) - before;
    run.server().trim_log();
    EXPECT_LE(fs::file_size(log), kLogBytes + 1000) << "a line may be late";
  }
  uint64_t all = 0;
  for (const auto& entry : fs::directory_iterator(run.folder() / "nats")) {
    if (entry.path().filename().string().starts_with("nats.log")) all += entry.file_size();
  }
  EXPECT_LE(all, 2 * kLogBytes + 1000);
  run.add("member", NatsRole::kMember);
  EXPECT_TRUE(run.connect("member")->connected());
}

// The log is so long that nobody could read it as a whole.
TEST(Threats, UsersAreAdmittedHoweverLongTheLogIs) {
  NatsRun run;
  fs::resize_file(run.folder() / "nats/nats.log", uint64_t{1} << 40);
  run.add("member", NatsRole::kMember);
  EXPECT_TRUE(run.connect("member")->connected());
}

TEST(Threats, WhoeverIsRefusedLearnsWhyWithoutTheLibrarysOwnWords) {
  NatsRun run;
  NatsOptions options = run.options("stranger");
  EXPECT_EQ(failure_to_connect(options).message, "it does not know the key, or no longer");
  options.target.ca_pem = make_authority({0, 4'000'000'000}).certificate;
  EXPECT_THAT(failure_to_connect(options).message,
              testing::MatchesRegex("its certificate is not trusted \\([a-z -]+\\)"));
}

TEST(Threats, AKeyThatTheServerDoesNotKnowIsRefused) {
  NatsRun run;
  EXPECT_EQ(refusal_of(run.options("stranger")), FailureKind::kRefused);
}

TEST(Threats, ARevokedMemberLosesItsConnection) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  const auto member = run.connect("member");
  ASSERT_TRUE(put(run, *member, {1}));
  run.revoke("member");
  const Result<void> stored = put(run, *member, {2});
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, FailureKind::kRefused);
  EXPECT_FALSE(member->connected());
  EXPECT_EQ(refusal_of(run.options("member")), FailureKind::kRefused);
}

TEST(Threats, AMemberCannotPublishUnderAnothersName) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  Intruder member(run, "member");
  const NatsSubjects subjects("run");
  const std::vector<std::string> subjects_of_others = {
      subjects.chunk("here", std::string(64, 'a') + ".0"),
      subjects.statement("here", "offers"),
      subjects.record("ledger"),
      subjects.stored_record("ledger"),
      subjects.purge(subjects.chunk_store("*")),
      "$JS.API.STREAM.DELETE.run-log-ledger",
      "other-run.say.member.offers",
      "_INBOX.here.1"};
  for (size_t i = 0; i < subjects_of_others.size(); ++i) {
    ASSERT_TRUE(member.connection->publish(subjects_of_others[i], "", {}, {}));
    ASSERT_TRUE(run.wait(member.refused, i + 1)) << subjects_of_others[i];
    EXPECT_THAT(member.refused.all()[i], HasSubstr(subjects_of_others[i]));
  }
}

TEST(Threats, OnlyCoordinatorsAppendAndDrop) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  const auto member = run.connect("member");
  const auto appended = append(run, *member, "ledger", 0, "mine");
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().kind, FailureKind::kRefused);
  const auto dropped =
      answer_of<void>(run, [&](auto done) { member->drop(sha256({}), "here", std::move(done)); });
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().kind, FailureKind::kRefused);
}

TEST(Threats, NewcomersAndObserversStoreNothing) {
  NatsRun run;
  run.add("newcomer", NatsRole::kNewcomer);
  run.add("observer", NatsRole::kObserver);
  for (const char* name : {"newcomer", "observer"}) {
    const auto courier = run.connect(name);
    const auto stored = put(run, *courier, {1});
    ASSERT_FALSE(stored);
    EXPECT_EQ(stored.error().kind, FailureKind::kRefused) << name;
  }
}

// The server answers wherever a member asks it to, under anybody's name: a statement is believed by
// its signature only.
TEST(Threats, AStatementInAnothersNameIsNotSignedByIt) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  const auto there = run.connect("there");
  Mail<Bytes> offers;
  const auto listening = there->subscribe(
      "here", "offers", [&](const std::string&, Bytes said) { offers.add(std::move(said)); });
  flush(run, *there);

  const auto own = make_signer(run.options("member").target.identity);
  const PublicKey heres = make_signer(run.options("here").target.identity)->key();
  Bytes forged = membership::encode_statement({1, own->key(), 1, membership::LeaveNotice{0}}, *own);
  ASSERT_TRUE(membership::decode_statement(forged, 1, verify)) << "as its own it is believed";
  const auto author = std::ranges::search(forged, own->key().bytes);
  ASSERT_FALSE(author.empty());
  std::ranges::copy(heres.bytes, author.begin());
  const auto member = run.connect("member");
  ASSERT_TRUE(put(run, *member, forged));
  Intruder intruder(run, "member");
  const NatsSubjects subjects("run");
  ASSERT_TRUE(intruder.connection->publish(subjects.get_chunk("member", key_of(forged)),
                                           subjects.statement("here", "offers"), {}, {}));
  ASSERT_TRUE(run.wait(offers, 1));
  EXPECT_EQ(offers.all().front(), forged) << "the server has carried it";
  EXPECT_FALSE(membership::decode_statement(offers.all().front(), 1, verify));
}

// The same way, a member may announce a record that is none, with headers as the server writes
// them: readers ask the store.
TEST(Threats, AnAnnouncedRecordThatIsNotStoredIsNotRead) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  const auto here = run.connect("here");
  const auto there = run.connect("there");
  ASSERT_TRUE(append(run, *here, "ledger", 0, "true"));
  Mail<Bytes> records;
  const auto reading =
      there->read("ledger", 1, [&](uint64_t, Bytes record) { records.add(std::move(record)); });
  ASSERT_TRUE(run.wait(records, 1));

  Intruder intruder(run, "member");
  const NatsSubjects subjects("run");
  const std::string chunk = std::string(64, 'b') + ".0";
  intruder.connection->subscribe("_INBOX.member.x");
  ASSERT_TRUE(intruder.connection->publish(
      subjects.chunk("member", chunk), "_INBOX.member.x",
      {{"Nats-Stream", subjects.record_store("ledger")}, {"Nats-Sequence", "2"}},
      bytes_of("forged")));
  ASSERT_TRUE(run.wait(intruder.received, 1));
  ASSERT_TRUE(intruder.connection->publish(subjects.get_chunk("member", chunk),
                                           subjects.stored_record("ledger"), {}, {}));
  ASSERT_TRUE(append(run, *here, "ledger", 1, "also true"));
  ASSERT_TRUE(run.wait(records, 2));
  EXPECT_THAT(records.all(), ElementsAre(bytes_of("true"), bytes_of("also true")));
}

// A member can ask for another's newest chunk without its name, as soon as it is stored. What the
// other says before it stores it is heard before what the member says then.
TEST(Threats, WhatIsSaidBeforeAChunkIsStoredIsHeardBeforeItsReaders) {
  NatsRun run;
  run.add("victim", NatsRole::kMember);
  run.add("thief", NatsRole::kMember);
  const auto here = run.connect("here");
  Mail<std::string> heard;
  const auto hearing = here->subscribe(
      "", "announcement", [&](const std::string& from, const Bytes&) { heard.add(from); });
  flush(run, *here);

  const auto victim = run.connect("victim");
  Intruder thief(run, "thief");
  thief.connection->subscribe("_INBOX.thief.x");
  const NatsSubjects subjects("run");
  victim->publish("announcement", {1});
  Mail<Result<void>> stored;
  victim->put(std::make_shared<const Bytes>(random_bytes(1000, 1)), Priority::kRound,
              [&](const Result<void>& done) { stored.add(done); });
  for (size_t asked = 1;; ++asked) {
    ASSERT_TRUE(thief.connection->publish(subjects.get_chunk("victim", NatsSubjects::kAllChunks),
                                          "_INBOX.thief.x", {}, {}));
    ASSERT_TRUE(run.wait(thief.received, asked));
    if (thief.received.all().back().body == random_bytes(1000, 1)) break;
  }
  ASSERT_TRUE(
      thief.connection->publish(subjects.statement("thief", "announcement"), "", {}, Bytes{2}));
  ASSERT_TRUE(run.wait(heard, 2));
  EXPECT_THAT(heard.all(), ElementsAre("victim", "thief"));
  ASSERT_TRUE(run.wait(stored, 1));
}

// Under the name of a chunk lies something else.
TEST(Threats, AnAlteredChunkIsNotTaken) {
  NatsRun run;
  run.add("member", NatsRole::kMember);
  const Bytes blob = random_bytes(1000, 1);
  Intruder intruder(run, "member");
  intruder.connection->subscribe("_INBOX.member.x");
  ASSERT_TRUE(intruder.connection->publish(NatsSubjects("run").chunk("member", key_of(blob)),
                                           "_INBOX.member.x", {}, random_bytes(1000, 2)));
  ASSERT_TRUE(run.wait(intruder.received, 1));
  const auto here = run.connect("here");
  const auto altered = get(run, *here, blob_id(blob), {"member"});
  ASSERT_FALSE(altered);
  EXPECT_EQ(altered.error().kind, FailureKind::kCorruptPayload);
  ASSERT_TRUE(put(run, *here, blob));
  EXPECT_TRUE(get(run, *here, blob_id(blob), {"member", "here"}));
}

// What is stored stays as it is.
TEST(Threats, AStoredChunkCannotBeReplaced) {
  NatsRun run;
  const auto here = run.connect("here");
  const Bytes blob = random_bytes(1000, 1);
  ASSERT_TRUE(put(run, *here, blob));
  Intruder intruder(run, "here");
  intruder.connection->subscribe("_INBOX.here.x");
  ASSERT_TRUE(intruder.connection->publish(NatsSubjects("run").chunk("here", key_of(blob)),
                                           "_INBOX.here.x", {}, random_bytes(1000, 2)));
  ASSERT_TRUE(run.wait(intruder.received, 1));
  EXPECT_TRUE(get(run, *here, blob_id(blob), {"here"}));
}

TEST(Threats, AMessageBeyondTheLimitIsRefused) {
  NatsRun run;
  Intruder intruder(run, "here");
  const auto sent = intruder.connection->publish(NatsSubjects("run").statement("here", "offers"),
                                                 "", {}, Bytes(2 * kMaxMessageBytes));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, FailureKind::kRefused);
}

// Connections that never say who they are end by the limit for handshakes, and others are served
// meanwhile.
TEST(Threats, HalfOpenConnectionsAreClosed) {
  NatsRun run({.handshake_s = 0.5});
  const auto here = run.connect("here");
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 200; ++i) sockets.push_back(std::make_unique<Socket>(run.server().port()));
  EXPECT_TRUE(put(run, *here, random_bytes(100'000, 1)));
  EXPECT_TRUE(run.connect("there")->connected());
  for (const auto& socket : sockets) EXPECT_THAT(socket->rest(), testing::Not(HasSubstr("hangs")));
}

// Nor does it help them to go on, a byte at a time, with a handshake that never ends.
TEST(Threats, SlowHandshakesAreClosed) {
  NatsRun run({.handshake_s = 1});
  const auto here = run.connect("here");
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 50; ++i) sockets.push_back(std::make_unique<Socket>(run.server().port()));
  constexpr std::string_view kHello("\x16\x03\x01\x02\x00\x01\x00", 7);
  for (size_t at = 0; at < kHello.size(); ++at) {
    for (const auto& socket : sockets) socket->send(kHello.substr(at, 1));
    EXPECT_TRUE(put(run, *here, random_bytes(100'000, at)));
  }
  EXPECT_TRUE(run.connect("there")->connected());
  for (const auto& socket : sockets) EXPECT_THAT(socket->rest(), testing::Not(HasSubstr("hangs")));
}

// More connections than the server takes are turned away; those it has go on.
TEST(Threats, ConnectionsAreLimited) {
  NatsRun run({.connections = 10, .handshake_s = 20});
  const auto here = run.connect("here");
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 30; ++i) sockets.push_back(std::make_unique<Socket>(run.server().port()));
  EXPECT_THAT(sockets.back()->rest(), testing::Not(HasSubstr("hangs")));
  EXPECT_TRUE(put(run, *here, random_bytes(100'000, 1)));
}

// However few files the server may open, strangers do not take those that it stores with.
TEST(Threats, StrangersLeaveFilesForTheStore) {
  int port_pipe[2];
  int told_pipe[2];
  ASSERT_EQ(::pipe2(port_pipe, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(told_pipe, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(store_with_few_files(port_pipe[1], told_pipe[0]));
  ::close(port_pipe[1]);
  ::close(told_pipe[0]);
  int port = 0;
  ASSERT_EQ(::read(port_pipe[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 400; ++i) sockets.push_back(std::make_unique<Socket>(port));
  EXPECT_TRUE(std::ranges::all_of(sockets, [](const auto& one) { return one->answered(); }));
  ASSERT_EQ(::write(told_pipe[1], "", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(port_pipe[0]);
  ::close(told_pipe[1]);
}

// A token's user expires.
TEST(Threats, AnExpiredUserIsLeftOut) {
  const TestFolder folder;
  const Seed seed = make_seed();
  std::vector<NatsUser> users = {{"here", make_signer(seed)->key(), NatsRole::kMember}};
  users[0].expires = static_cast<int64_t>(unix_seconds()) - 1;
  const NatsServer server(
      {.host = "127.0.0.1", .folder = folder.path(), .run = "run", .streams = {}}, users,
      kNatsPatience);
  const NatsOptions options{
      .target = {{"127.0.0.1:" + std::to_string(server.port())}, server.authority(), seed, 5},
      .run = "run",
      .self = "here"};
  EXPECT_EQ(refusal_of(options), FailureKind::kRefused);
}

}  // namespace
}  // namespace thinwire::transport
