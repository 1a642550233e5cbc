#include "thinwire/hosts/access.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/couriers/courier_memory.h"
#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::hosts {
namespace {

constexpr double kTimeout = 30;   // of requests to the store, in virtual time
constexpr double kPatience = 30;  // only what hangs takes that long

// A store that cannot be reached until a request to it has failed.
class StoreThatIsDown : public testing::Test {
 protected:
  void SetUp() override {
    holder_->put(std::make_shared<const Bytes>(blob_), transport::Priority::kBulk,
                 [](const Result<void>&) {});
    network_.run();
    network_.disconnect("guest");
    runs_ = std::thread([this, began = network_.now()] {
      while (!ended_) {
        if (network_.step()) continue;
        if (network_.now() >= began + kTimeout) network_.reconnect("guest");
        std::this_thread::yield();
      }
    });
  }
  void TearDown() override {
    ended_ = true;
    runs_.join();
  }
  Bytes fetch(const WaitLimits& limits) {
    return fetch_blob(*guest_, "the run's data", transport::blob_id(blob_), founder_, limits,
                      nullptr);
  }

  const Bytes blob_ = {1, 2, 3};
  const PublicKey founder_ = make_signer(make_seed())->key();
  transport::MemoryNetwork network_{{.timeout_s = kTimeout}};
  const std::unique_ptr<transport::Courier> holder_ = network_.connect(participant_name(founder_));
  const std::unique_ptr<transport::Courier> guest_ = network_.connect("guest");
  std::atomic<bool> ended_ = false;
  std::thread runs_;
};

TEST_F(StoreThatIsDown, IsWaitedForAsLongAsTheUserSays) {
  EXPECT_EQ(fetch({.wait_s = kPatience}), blob_);
}

TEST_F(StoreThatIsDown, IsAFailureForWhoeverDoesNotWait) {
  try {
    (void)fetch({.wait_s = 0});
    FAIL() << "it was fetched";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the run's data cannot be fetched"));
  }
}

// A folder in which no run is.
class MailboxWithoutRun : public testing::Test {
 protected:
  std::string why_not() const {
    Access access;
    access.servers = {folder_.string()};
    access.run = participant_name(make_signer(make_seed())->key());
    return tests::error_of([&] { await_mailbox(access); });
  }

  const fs::path folder_ = test_folder();
};

TEST_F(MailboxWithoutRun, IsWaitedForOnlyAsLongAsTheUserSays) {
  EXPECT_THAT(why_not(), testing::HasSubstr("the token's run is not in " + folder_.string()));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(MailboxWithoutRun, MayHoldAnotherRunButNoOtherFiles) {
  fs::create_directory(folder_ / participant_name(make_signer(make_seed())->key()));
  fs::create_directory(folder_ / ".stfolder");
  EXPECT_THAT(why_not(), testing::HasSubstr("the token's run is not in "));
  write_file(folder_ / "notes.txt", "x");
  EXPECT_THAT(why_not(), testing::HasSubstr("holds other files and not the token's run"));
}

TEST_F(MailboxWithoutRun, DoesNotTakeTheFolderOfARunWithItsKeys) {
  const auto why = [&](const fs::path& run) {
    return tests::error_of([&] { check_outside_mailbox(run, folder_); });
  };
  const std::string expected = "[run] dir must lie outside the mailbox";
  EXPECT_THAT(why(folder_), testing::HasSubstr(expected));
  EXPECT_THAT(why(folder_ / "run" / "new"), testing::HasSubstr(expected));
  EXPECT_THAT(why(folder_ / ".." / folder_.filename() / "run"), testing::HasSubstr(expected));
  EXPECT_NO_THROW(check_outside_mailbox(folder_.string() + "-run", folder_));
  EXPECT_NO_THROW(check_outside_mailbox(folder_ / ".." / "run", folder_));
}

TEST(Address, IsRefusedWithItsValueAndWhatIsRight) {
  const auto why = [](const std::string& text) {
    return tests::error_of([&] { (void)parse_address("--address", text); });
  };
  EXPECT_EQ(parse_address("--address", "[::1]:65535").host, "::1");
  EXPECT_EQ(why("host:0"),
            "--address must be HOST:PORT with the port to which members connect, from 1 to 65535, "
            "got 'host:0'");
  EXPECT_EQ(why("my_host:4222"),
            "--address must be HOST:PORT with a HOST of letters, digits, '-' and '.', or an IPv6 "
            "address in [], got 'my_host:4222'");
  EXPECT_EQ(why("host"), "--address must be HOST:PORT with a port from 0 to 65535, got 'host'");
}

constexpr int64_t kDay = 86400;
constexpr int64_t kFrom = 1'800'000'000;  // 2027-01-15 08:00
constexpr int64_t kUntil = kFrom + 10 * kDay;

TEST(ClockProblem, IsNamedWithBothDates) {
  const std::string authority = transport::make_authority({kFrom, kUntil}).certificate;
  EXPECT_EQ(clock_problem(authority, "refused", static_cast<double>(kFrom + 1)), "");
  EXPECT_EQ(clock_problem(authority, "refused", static_cast<double>(kFrom - kDay)),
            "this machine's clock is slow: it says 2027-01-14 08:00 UTC, but the run's certificate "
            "is valid only from 2027-01-15 08:00 UTC on; set the clock (timedatectl set-ntp true)");
  EXPECT_EQ(clock_problem(authority, "refused", static_cast<double>(kUntil + kDay)),
            "the run's certificate was valid until 2027-01-25 08:00 UTC, and this machine's clock "
            "says 2027-01-26 08:00 UTC; if it is wrong, set the clock (timedatectl set-ntp true)");
}

// Authorities that the system trusts are not known here.
TEST(ClockProblem, IsSeenInWhatTlsSays) {
  const std::string said = "its certificate is not trusted (certificate is not yet valid)";
  EXPECT_EQ(
      clock_problem("", said, static_cast<double>(kFrom)),
      "its certificate is not yet valid, by this machine's clock, which says 2027-01-15 08:00 "
      "UTC; if the clock is wrong, set the clock (timedatectl set-ntp true)");
  EXPECT_EQ(clock_problem("", "it does not know the key, or no longer", static_cast<double>(kFrom)),
            "");
}

}  // namespace
}  // namespace thinwire::hosts
