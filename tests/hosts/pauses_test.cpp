#include "thinwire/hosts/pauses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"

namespace thinwire::hosts {
namespace {

constexpr double kOften = 0.001;  // seconds between looks

TEST(Hours, MayGoPastMidnight) {
  const Hours night = parse_hours("22-7");
  EXPECT_TRUE(night.has(22 * 60));
  EXPECT_TRUE(night.has(0));
  EXPECT_TRUE(night.has(6 * 60 + 59));
  EXPECT_FALSE(night.has(7 * 60));
  EXPECT_FALSE(night.has(21 * 60 + 59));
  const Hours day = parse_hours("8:30-17");
  EXPECT_TRUE(day.has(8 * 60 + 30));
  EXPECT_FALSE(day.has(17 * 60));
  EXPECT_FALSE(day.has(8 * 60 + 29));
  EXPECT_TRUE(parse_hours("18-24").has(23 * 60 + 59));
}

TEST(Hours, ThatAreNoTimesAreRefused) {
  for (const char* text :
       {"", "22", "22-", "-7", "25-7", "22-7:60", "24:30-7", "22:x-7", "7-7", "22-7-8", "0-24"}) {
    EXPECT_EQ(tests::error_of([&] { parse_hours(text); }),
              "--hours must be two different times of day, such as 22-7 or 8:30-17, got \"" +
                  std::string(text) + "\"");
  }
}

TEST(PauseRules, AreNamedWithCommas) {
  PauseRules rules;
  parse_pause_when("busy,battery", rules);
  EXPECT_TRUE(rules.busy && rules.battery && !rules.metered);
  EXPECT_EQ(tests::error_of([&] { parse_pause_when("busy,lazy", rules); }),
            "--pause-when must be busy, battery, metered, or several of them with commas, got "
            "\"busy,lazy\"");
}

TEST(PauseRules, SayWhyTheMemberPauses) {
  const MachineUse use{.minute = 12 * 60, .others = 0.3, .battery = true, .metered = true};
  EXPECT_EQ(why_paused({}, use, false), "");
  EXPECT_EQ(why_paused({.hours = Hours{22 * 60 + 30, 7 * 60}}, use, false),
            "it is not to compute before 22:30");
  EXPECT_EQ(why_paused({.battery = true}, use, false), "the machine runs on its battery");
  EXPECT_EQ(why_paused({.metered = true}, use, false), "the connection is metered");
  EXPECT_EQ(why_paused({.busy = true}, use, false), "other programs use 30 % of the processor");
}

TEST(PauseRules, AMachineThatIsHalfAsBusyIsFree) {
  const PauseRules rules{.busy = true};
  EXPECT_EQ(why_paused(rules, {.others = 0.2}, false), "");
  EXPECT_NE(why_paused(rules, {.others = 0.2}, true), "") << "it has paused already";
  EXPECT_EQ(why_paused(rules, {.others = 0.12}, true), "");
}

// A machine with these files.
class MachineFiles : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    write_file(root_ / name, text + "\n");
  }
  const fs::path root_ = tests::memory_folder() / "machine";
};

TEST_F(MachineFiles, ThatSayWhetherPowerIsThere) {
  write("sys/class/power_supply/BAT0/type", "Battery");
  write("sys/class/power_supply/BAT0/status", "Discharging");
  write("sys/class/power_supply/AC/type", "Mains");
  write("sys/class/power_supply/AC/online", "0");
  MachineWatch watch({.battery = true}, root_);
  EXPECT_TRUE(watch.look().battery);
  write("sys/class/power_supply/AC/online", "1");
  EXPECT_FALSE(watch.look().battery);
}

TEST_F(MachineFiles, ThatSayNothingOfPowerAreRefused) {
  EXPECT_THAT(tests::error_of([&] { MachineWatch({.battery = true}, root_); }),
              testing::HasSubstr("does not say how it is powered"));
}

// What this process computes itself is not others'.
TEST_F(MachineFiles, ThatSayHowMuchOthersCompute) {
  write("proc/stat", "cpu 1000 0 0 5000 0 0 0 0 0 0");
  MachineWatch watch({.busy = true}, root_);
  EXPECT_EQ(watch.look(10).others, 0);
  write("proc/stat", "cpu 900000 50000 50000 5000 0 0 0 0 0 0");
  EXPECT_EQ(watch.look(10.5).others, 0) << "too soon";
  EXPECT_GT(watch.look(20).others, 1);
  write("proc/stat", "cpu 900000 50000 50000 900000 900000 0 0 0 0 0");
  EXPECT_EQ(watch.look(30).others, 0) << "idle, and waiting for disks";
}

class PausesOf : public testing::Test {
 protected:
  MachineUse look() {
    const std::lock_guard lock(mutex_);
    ++looks_;
    changed_.notify_all();
    return use_;
  }
  void set(const MachineUse& use) {
    std::unique_lock lock(mutex_);
    use_ = use;
    const int before = looks_;
    changed_.wait(lock, [&] { return looks_ > before + 1; });
  }
  static void await(const std::atomic<bool>& flag, bool value) {
    while (flag != value) std::this_thread::yield();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  MachineUse use_;
  int looks_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::string> said_;
  const events::MessageSink say_ = [this](std::string_view text) { said_.emplace_back(text); };
};

TEST_F(PausesOf, AMemberThatLeavesAndReturns) {
  Pauses pauses(
      {.battery = true}, [this] { return look(); }, &stop_, kOften);
  EXPECT_TRUE(pauses.wait(say_));
  EXPECT_TRUE(said_.empty()) << "it need not wait";
  EXPECT_FALSE(*pauses.leaves());
  set({.battery = true});
  await(*pauses.leaves(), true);
  std::thread power([this] { set({}); });
  EXPECT_TRUE(pauses.wait(say_));
  power.join();
  EXPECT_EQ(said_,
            (std::vector<std::string>{
                "pauses, because the machine runs on its battery; returns by itself", "goes on"}));
  await(*pauses.leaves(), false);
}

TEST_F(PausesOf, AMemberThatIsToldToStopMeanwhile) {
  use_.battery = true;
  Pauses pauses(
      {.battery = true}, [this] { return look(); }, &stop_, kOften);
  EXPECT_TRUE(*pauses.leaves());
  std::thread user([this] { stop_ = true; });
  EXPECT_FALSE(pauses.wait(say_));
  user.join();
}

TEST_F(PausesOf, AMemberThatIsToldToStopLeaves) {
  const Pauses pauses(
      {.battery = true}, [this] { return look(); }, &stop_, kOften);
  EXPECT_FALSE(*pauses.leaves());
  stop_ = true;
  await(*pauses.leaves(), true);
}

}  // namespace
}  // namespace thinwire::hosts
