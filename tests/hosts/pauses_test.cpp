#include "thinwire/hosts/pauses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"

namespace thinwire::hosts {
namespace {

constexpr Pauses::Times kOften{.look_s = 0.001, .least_s = 0};
constexpr double kTimeoutSeconds = 60;

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

TEST_F(MachineFiles, OfAMousesBatteryDoNotCount) {
  write("sys/class/power_supply/hidpp_battery_0/type", "Battery");
  write("sys/class/power_supply/hidpp_battery_0/scope", "Device");
  write("sys/class/power_supply/hidpp_battery_0/status", "Discharging");
  EXPECT_FALSE(MachineWatch({.battery = true}, root_).look().battery);
}

TEST_F(MachineFiles, ThatSayNothingOfPowerAreRefused) {
  EXPECT_THAT(tests::error_of([&] { MachineWatch({.battery = true}, root_); }),
              testing::HasSubstr("does not say how it is powered"));
  EXPECT_THAT(tests::error_of([&] { MachineWatch({.busy = true}, root_); }),
              testing::HasSubstr("does not say how much its processor is used"));
}

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

double computed_here() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The machine has computed as much as this process.
TEST_F(MachineFiles, DoNotCountWhatThisProcessComputesAsOthers) {
  const auto stat = [&](double seconds) {
    write("proc/stat",
          "cpu " + std::to_string(static_cast<int64_t>(100 * seconds)) + " 0 0 5000 0 0 0 0 0 0");
  };
  stat(1000);
  MachineWatch watch({.busy = true}, root_);
  (void)watch.look(10);
  const double before = computed_here();
  while (computed_here() < before + 1) {
  }
  stat(1001);
  EXPECT_LT(watch.look(20).others * 10 * cores_here(root_).machine, 0.5) << "seconds";
}

class PausesOf : public testing::Test {
 protected:
  MachineUse look() {
    const std::lock_guard lock(mutex_);
    ++looks_;
    if (fails_) throw Error("no such device");
    return use_;
  }
  void set(const MachineUse& use) {
    const std::lock_guard lock(mutex_);
    use_ = use;
  }
  // What was set has been seen.
  void await_looks() {
    const int before = looks_;
    for (const Stopwatch watch; looks_ < before + 3; std::this_thread::yield()) {
      ASSERT_LT(watch.seconds(), kTimeoutSeconds);
    }
  }
  static void await(const std::atomic<bool>& flag) {
    for (const Stopwatch watch; !flag; std::this_thread::yield()) {
      ASSERT_LT(watch.seconds(), kTimeoutSeconds);
    }
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  std::mutex mutex_;
  MachineUse use_;
  bool fails_ = false;
  std::atomic<int> looks_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::string> said_;
  std::function<void()> on_said_ = [] {};
  const events::MessageSink say_ = [this](std::string_view text) {
    {
      const std::lock_guard lock(mutex_);
      said_.emplace_back(text);
    }
    on_said_();
  };
  const std::function<bool()> goes_on_ = [] { return false; };
  std::optional<Pauses> pauses_;
  void watch(const PauseRules& rules = {.battery = true}, Pauses::Times times = kOften) {
    pauses_.emplace(
        rules, [this] { return look(); }, &stop_, say_, times);
  }
};

TEST_F(PausesOf, AMemberThatLeavesAndReturns) {
  watch();
  EXPECT_TRUE(pauses_->wait(goes_on_));
  EXPECT_TRUE(said().empty()) << "it need not wait";
  EXPECT_FALSE(*pauses_->leaves());
  set({.battery = true});
  await(*pauses_->leaves());
  EXPECT_TRUE(pauses_->paused());
  on_said_ = [this] { set({}); };
  EXPECT_TRUE(pauses_->wait(goes_on_));
  EXPECT_EQ(said(),
            (std::vector<std::string>{
                "pauses, because the machine runs on its battery; returns by itself", "goes on"}));
  EXPECT_FALSE(*pauses_->leaves());
}

// Power is back before the member has left.
TEST_F(PausesOf, AMemberThatIsLeavingWhenTheReasonIsGone) {
  watch();
  set({.battery = true});
  await(*pauses_->leaves());
  set({});
  await_looks();
  EXPECT_TRUE(*pauses_->leaves()) << "what told it to stop holds until it has stopped";
  EXPECT_TRUE(pauses_->wait(goes_on_));
  EXPECT_FALSE(*pauses_->leaves());
}

TEST_F(PausesOf, AMemberThatIsToldToStopMeanwhile) {
  use_.battery = true;
  watch();
  EXPECT_TRUE(*pauses_->leaves());
  on_said_ = [this] { stop_ = true; };
  EXPECT_FALSE(pauses_->wait(goes_on_));
  EXPECT_FALSE(pauses_->paused());
}

TEST_F(PausesOf, AMemberThatIsToldToStopLeaves) {
  watch();
  EXPECT_FALSE(*pauses_->leaves());
  stop_ = true;
  await(*pauses_->leaves());
}

TEST_F(PausesOf, AMemberThatIsNoLongerAdmittedEnd) {
  use_.battery = true;
  watch();
  EXPECT_TRUE(pauses_->wait([] { return true; }));
}

TEST_F(PausesOf, AMachineThatCannotBeSeenGoOnAsBefore) {
  use_.battery = true;
  watch();
  {
    const std::lock_guard lock(mutex_);
    fails_ = true;
  }
  for (const Stopwatch watch; said().empty(); std::this_thread::yield()) {
    ASSERT_LT(watch.seconds(), kTimeoutSeconds);
  }
  EXPECT_EQ(said().front(), "cannot see what this machine is doing: no such device");
  EXPECT_TRUE(pauses_->paused());
}

TEST_F(PausesOf, OthersLastAWhile) {
  use_.others = 1;
  watch({.busy = true}, {.look_s = 0.001, .least_s = 1000});
  set({});
  await_looks();
  EXPECT_TRUE(pauses_->paused());
  on_said_ = [this] { stop_ = true; };
  EXPECT_FALSE(pauses_->wait(goes_on_));
  EXPECT_EQ(said().front(),
            "pauses, because other programs used the processor a moment ago; returns by itself");
}

}  // namespace
}  // namespace thinwire::hosts
